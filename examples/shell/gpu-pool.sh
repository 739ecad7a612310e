#!/bin/sh
# 40 short jobs, 8 at a time, share 3 pools of one permit each: three GPUs, say.
#
# Each job takes whichever GPU is free, and proves that it is alone there: it holds a directory named after its
# permit, which only one can make. At the end every GPU must have been used, and no two jobs at once.
#
# Run it from anywhere: it uses $CHAPPE, the chappe in PATH, or the one that cargo built, and an arena of its own.
set -eu

JOBS=40
AT_ONCE=8

here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${CHAPPE:-}" ]; then
    CHAPPE=$(command -v chappe) || CHAPPE=$here/../../target/release/chappe
fi
if [ ! -x "$CHAPPE" ]; then
    echo "no chappe: build it with \`cargo build --release\`, or set CHAPPE to where it is" >&2
    exit 1
fi
export CHAPPE

work=$(mktemp -d)
arena=gpu-pool-$$
export work arena
clean_up() {
    "$CHAPPE" arena rm "$arena" --force || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for gpu in gpu0 gpu1 gpu2; do
    "$CHAPPE" pool create "$arena/$gpu"
done

# What one job does, with the permit's name in CHAPPE_PERMIT.
cat >"$work/job" <<'JOB'
gpu=${CHAPPE_PERMIT#*/}
if ! mkdir "$work/busy-$gpu"; then
    echo "job $1: somebody else is on $gpu" >>"$work/collisions"
    exit 1
fi
sleep 0.05
rmdir "$work/busy-$gpu"
echo "$gpu" >>"$work/log"
JOB

seq "$JOBS" | xargs -P "$AT_ONCE" -I JOB \
    "$CHAPPE" acquire "$arena/gpu0" "$arena/gpu1" "$arena/gpu2" -- sh "$work/job" JOB ||
    echo "xargs: status $?" >>"$work/collisions"

sort "$work/log" | uniq -c | while read -r count gpu; do
    echo "$gpu ran $count jobs"
done
done_jobs=$(wc -l <"$work/log")
used=$(sort -u "$work/log" | wc -l)
"$CHAPPE" ls "$arena"

if [ -e "$work/collisions" ]; then
    cat "$work/collisions"
    exit 1
fi
if [ "$done_jobs" -ne "$JOBS" ] || [ "$used" -ne 3 ]; then
    echo "$done_jobs of $JOBS jobs were done, on $used of 3 GPUs"
    exit 1
fi
echo "$JOBS jobs on 3 GPUs, $AT_ONCE at a time: each GPU was used, no two at once on any"
