# Runs a node of Galera from the position that its data have.
# $1 the folder with the scripts that send the data to another node
# $2 and on: the server and its arguments
# A node that was killed does not know how far it came: only a recovery of InnoDB tells. Without the position it would ask
# another node for all data instead of what it lacks, and that node may be the writer.
PATH=$1:$PATH
export PATH
shift
position=
if grep -q '^seqno: *-1$' data/grastate.dat 2>/dev/null; then
    "$@" --wsrep-recover --disable-log-error 2>recovery.log
    position=$(sed -n 's/.*WSREP: Recovered position: *//p' recovery.log | tail -n 1)
fi
exec "$@" ${position:+--wsrep-start-position="$position"}
