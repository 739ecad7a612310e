#!/bin/sh
# Makes the shared library of the archive that cargo builds: link.sh ARCHIVE SHARED-LIBRARY
#
# rustc gives every shared library of its own a version script, and the linker takes only one; so the symbols get their version here.
# -z nodelete: threads that watch for deaths run in it, so dlclose may not take it away.
set -eu
here=$(dirname "$0")
exec ${CC:-cc} -shared -o "$2" \
    -Wl,-soname,libchappe.so.0 -Wl,--version-script="$here/chappe.map" \
    -Wl,-z,nodelete -Wl,-z,relro -Wl,-z,now -Wl,--gc-sections -Wl,--as-needed \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive -lgcc_s -lpthread -ldl -lm ${LDFLAGS:-}
