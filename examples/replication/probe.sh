#!/bin/sh
# probe write: a row is written on the primary and acknowledged.
# probe arrives SECONDS: a row that is written now can be read on the standby so soon.
set -u
ask() { host=$1; shift; timeout 4 psql -h "$host" -U postgres -XqtA -c "$*" postgres; }
id=$(cat /proc/sys/kernel/random/uuid)
ask primary "INSERT INTO kept (id) VALUES ('$id')" || exit 3
[ "$1" = write ] && exit 0
end=$(($(date +%s) + $2))
until [ "$(ask standby "SELECT 1 FROM kept WHERE id = '$id'")" = 1 ]; do
    [ "$(date +%s)" -lt "$end" ] || exit 4
    sleep 0.2
done
