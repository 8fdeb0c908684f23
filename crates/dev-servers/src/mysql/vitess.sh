# Runs a program of Vitess, which refuses to run as root: then as the user "nobody".
# $1 the folder that it may write into, $2 the program, $3 and on: its arguments
# What it takes is bounded: no more memory and processors than these, as far as Go's runtime obeys.
VTDATAROOT=$1
GOMEMLIMIT=1GiB
GOMAXPROCS=4
export VTDATAROOT GOMEMLIMIT GOMAXPROCS
cd "$1" || exit 1
program=$2
shift 2
if [ "$(id -u)" != 0 ]; then
    exec "$program" "$@"
fi
# The program may lie in a folder that is closed to others, so it is opened before, and run by its descriptor.
exec 3<"$program"
exec setpriv --reuid=65534 --regid=65534 --clear-groups -- /proc/self/fd/3 "$@"
