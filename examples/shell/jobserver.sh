#!/bin/sh
# Two builds of 100 C files each share 4 job slots, while compilers and sub-makes are killed.
#
# Each build has 10 directories with a makefile of their own. A killed sub-make takes its slots along under other job
# servers; here they come back. At the end both builds are done (the killed parts by running make again), and all
# slots are free. $DIRECTORIES and $KILLS make it shorter or longer.
#
# It needs GNU make 4.4 or later ($MAKE, or make in PATH) and cc. Run it from anywhere: it uses $CHAPPE, the chappe in
# PATH, or the one that cargo built, and an arena of its own.
set -eu

SLOTS=4
KILLS=${KILLS:-40}
DIRECTORIES=${DIRECTORIES:-10}

here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${CHAPPE:-}" ]; then
    CHAPPE=$(command -v chappe) || CHAPPE=$here/../../target/release/chappe
fi
if [ ! -x "$CHAPPE" ]; then
    echo "no chappe: build it with \`cargo build --release\`, or set CHAPPE to where it is" >&2
    exit 1
fi
MAKE=${MAKE:-make}
case $("$MAKE" --version) in
"GNU Make "[5-9]* | "GNU Make 4."[4-9]* | "GNU Make 4."[1-3][0-9]*) ;;
*)
    echo "this needs GNU make 4.4 or later: set MAKE to where it is" >&2
    exit 1
    ;;
esac

work=$(mktemp -d)
arena=jobserver-$$
clean_up() {
    "$CHAPPE" arena rm "$arena" --force || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for build in one two; do
    for d in $(seq "$DIRECTORIES"); do
        mkdir -p "$work/$build/d$d"
        for f in 0 1 2 3 4 5 6 7 8 9; do
            printf '#include <stdio.h>\nint f%s_%s(void) { return printf("%s"); }\n' "$d" "$f" "$f" \
                >"$work/$build/d$d/f$f.c"
        done
        printf 'lib.a: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\t@ar rcs $@ $^\n.DELETE_ON_ERROR:\n' \
            >"$work/$build/d$d/Makefile"
    done
    printf 'D = $(wildcard d*)\nall: $(D)\n$(D):\n\t+@$(MAKE) --no-print-directory -sC $@\n.PHONY: all $(D)\n' \
        >"$work/$build/Makefile"
done

"$CHAPPE" pool create "$arena/cpu" --permits "$SLOTS"

# One build: make again and again until nothing was killed.
cat >"$work/build" <<'BUILD'
runs=1
until "$MAKE" -k >>log 2>&1; do
    runs=$((runs + 1))
done
echo "$(basename "$PWD"): done after $runs runs of make"
BUILD

# Descendants of $1, at any depth, by name: only what the builds started is ever killed.
below() {
    for child in $(cat "/proc/$1/task/"*"/children" 2>/dev/null); do
        echo "$child $(cat "/proc/$child/comm" 2>/dev/null)"
        below "$child"
    done
}

pids=
for build in one two; do
    (cd "$work/$build" && MAKE=$MAKE exec "$CHAPPE" jobserver --pool "$arena/cpu" -- sh "$work/build") &
    pids="$pids $!"
done

killed=0
while [ "$killed" -lt "$KILLS" ]; do
    alive=
    for pid in $pids; do
        if kill -0 "$pid" 2>/dev/null; then
            alive=$pid
            victim=$(below "$pid" | grep -E ' (make|cc1|cc|gcc|as)$' | shuf -n 1 | cut -d ' ' -f 1)
            if [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null; then
                killed=$((killed + 1))
            fi
        fi
    done
    [ -n "$alive" ] || break
    sleep 0.05
done
for pid in $pids; do
    wait "$pid"
done

"$CHAPPE" ls "$arena"
free=$("$CHAPPE" --json show "$arena/cpu" | sed 's/.*"free":\([0-9]*\).*/\1/')
if [ "$free" -ne "$SLOTS" ]; then
    "$CHAPPE" show "$arena/cpu"
    exit 1
fi
echo "$killed processes killed, both builds done, all $SLOTS slots free"
