#!/bin/sh
# Two producers and three consumers share a buffer with three places, by two semaphores: one counts the free places,
# the other the items. Neither polls: a process with nothing to do sleeps in `chappe sem down`.
#
# An item is a file of the directory `buffer`. At the end each item must have been consumed exactly once, and there
# never were more than three.
#
# Run it from anywhere: it uses $CHAPPE, the chappe in PATH, or the one that cargo built, and an arena of its own.
set -eu

PLACES=3
EACH=12

here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${CHAPPE:-}" ]; then
    CHAPPE=$(command -v chappe) || CHAPPE=$here/../../target/release/chappe
fi
if [ ! -x "$CHAPPE" ]; then
    echo "no chappe: build it with \`cargo build --release\`, or set CHAPPE to where it is" >&2
    exit 1
fi

work=$(mktemp -d)
arena=buffer-$$
clean_up() {
    "$CHAPPE" arena rm "$arena" --force || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$CHAPPE" sem create "$arena/places" --value "$PLACES"
"$CHAPPE" sem create "$arena/items"
mkdir "$work/buffer" "$work/consumed"

produce() {
    for i in $(seq "$EACH"); do
        "$CHAPPE" sem down "$arena/places"
        : >"$work/buffer/$1-$i"
        if [ "$(ls "$work/buffer" | wc -l)" -gt "$PLACES" ]; then
            : >"$work/too-many"
        fi
        "$CHAPPE" sem up "$arena/items"
    done
}

# Moving an item is what makes it one's own.
take() {
    for item in "$work"/buffer/*; do
        if mv "$item" "$work/consumed/$1-by-${item##*/}" 2>/dev/null; then
            return
        fi
    done
    return 1
}

# A consumer that has consumed a unit of `items` may take any one item; others may be faster with those that it sees first.
consume() {
    while "$CHAPPE" sem down "$arena/items" && [ ! -e "$work/over" ]; do
        until take "$1"; do :; done
        "$CHAPPE" sem up "$arena/places"
    done
}

for name in a b c; do
    consume "$name" &
done
produce x &
first=$!
produce y &
wait "$first" "$!"

# All places are free again when all items have been consumed.
for i in $(seq "$PLACES"); do
    "$CHAPPE" sem down "$arena/places"
done
: >"$work/over"
"$CHAPPE" sem up "$arena/items" -n 3
wait

consumed=$(ls "$work/consumed" | wc -l)
different=$(ls "$work/consumed" | sed 's/.*-by-//' | sort -u | wc -l)
if [ -e "$work/too-many" ] || [ "$consumed" -ne $((2 * EACH)) ] || [ "$different" -ne "$consumed" ]; then
    echo "$consumed items were consumed, $different different ones; $(ls "$work/buffer" | wc -l) are left"
    exit 1
fi
echo "$consumed items went through $PLACES places, each to one consumer"
