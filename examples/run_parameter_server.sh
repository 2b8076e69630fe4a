#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A parameter-server cluster on this machine: run_parameter_server.sh PROGRAM [OPTIONS...]
# WORKERS (2), SERVERS (1) and PORT (7000, the first of several) may be set. Tasks know each other by a job key made for this
# run with the `ringfire` command (RINGFIRE names another than the one beside the program or in PATH).
set -eu
[ $# -ge 1 ] || { sed -n '3,5s/^# //p' "$0" >&2; exit 2; }
program=$1
shift
workers=${WORKERS:-2} servers=${SERVERS:-1} port=${PORT:-7000}
here=$(dirname "$program")
if [ -z "${RINGFIRE:-}" ]; then
    RINGFIRE=ringfire
    [ ! -x "$here/../tools/ringfire" ] || RINGFIRE=$here/../tools/ringfire
fi

# addresses COUNT FIRST: "127.0.0.1:FIRST", ...
addresses()
{
    i=0
    while [ "$i" -lt "$1" ]; do
        [ "$i" -eq 0 ] || printf ', '
        printf '"127.0.0.1:%d"' $(($2 + i))
        i=$((i + 1))
    done
}
cluster=$(printf '{"chief": [%s], "worker": [%s], "ps": [%s]}' "$(addresses 1 "$port")" \
    "$(addresses "$workers" $((port + 1)))" "$(addresses "$servers" $((port + 1 + workers)))")

directory=$(mktemp -d)
children=
clean_up()
{
    for child in $children; do kill "$child" 2>/dev/null || true; done
    rm -rf "$directory"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
"$RINGFIRE" keygen "$directory/job.key" >/dev/null
export RINGFIRE_KEY_FILE="$directory/job.key"

# start TYPE INDEX OPTIONS...
start()
{
    TF_CONFIG=$(printf '{"cluster": %s, "task": {"type": "%s", "index": %d}}' "$cluster" "$1" "$2")
    export TF_CONFIG
    shift 2
    "$program" "$@" &
    children="$children $!"
}
i=0
while [ "$i" -lt "$servers" ]; do start ps "$i" "$@"; i=$((i + 1)); done
i=0
while [ "$i" -lt "$workers" ]; do start worker "$i" "$@"; i=$((i + 1)); done
start chief 0 "$@"
status=0
wait "$!" || status=$?
# The others end by themselves when the chief has.
for child in $children; do wait "$child" || [ "$status" -ne 0 ] || status=$?; done
children=
exit "$status"
