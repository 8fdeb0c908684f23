# The guardian of one server. It runs the server, passes signals on, and ends it when its maker ends.
# $1 seconds the server may take to stop by itself
# $2 and on: the server and its arguments
# stdin: one signal name a line (TERM, KILL, STOP, CONT); its end means that our maker is gone.
# stdout: "pid N" once, then "sent" or "gone" for each signal. stderr: the server's log.
stop_seconds=$1
shift
exec 3<&0 4>&1

"$@" </dev/null >&2 3<&- 4>&- &
server=$!

(
    # Only here: the server must not inherit an ignored SIGPIPE, but a vanished maker must not end us.
    trap '' PIPE
    echo "pid $server" >&4
    while read -r signal <&3; do
        if kill -s "$signal" "$server" 2>/dev/null; then echo sent >&4; else echo gone >&4; fi
    done
    # A stopped process takes TERM only after CONT.
    kill -s TERM "$server" 2>/dev/null
    kill -s CONT "$server" 2>/dev/null
    tenths=0
    while [ "$tenths" -lt $((stop_seconds * 10)) ] && kill -0 "$server" 2>/dev/null; do
        sleep 0.1
        tenths=$((tenths + 1))
    done
    kill -s KILL "$server" 2>/dev/null
) &
watcher=$!
exec 3<&- 4>&-

wait "$server"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
