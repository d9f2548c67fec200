#!/bin/sh
# Redis or Sentinel in a node, with Debian's own configuration files: told to stay in the foreground, to speak on the
# node's network, and where the first master is. One value is another one: a Redis counts as down after 2 s, not 30.
set -eu
what=$1
shift
case $what in
redis)
    exec redis-server /etc/redis/redis.conf --daemonize no --logfile '""' --bind '*' --protected-mode no "$@"
    ;;
sentinel)
    own=/var/lib/redis/sentinel.conf # Sentinel writes into it what it learns
    [ -e $own ] || sed -e 's/^daemonize .*/daemonize no/; s/^bind .*/bind */' \
        -e "s|^logfile .*|logfile /var/log/redis/sentinel-$(hostname).log|" \
        -e 's/^sentinel monitor .*/sentinel monitor mymaster 10.77.0.1 6379 2/' \
        -e 's/^sentinel down-after-milliseconds .*/sentinel down-after-milliseconds mymaster 2000/' \
        /etc/redis/sentinel.conf > $own
    exec redis-sentinel $own
    ;;
esac
