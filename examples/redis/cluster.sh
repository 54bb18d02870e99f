#!/bin/sh
# Asks a limit on a Redis Cluster with redis-cli alone: 0 admitted, 1 denied, 2 no answer.
#
# limit.lua is made once, wherever `tollgate` is:
#   tollgate scripts "2/h via gcra" --answer boolean --format lua > limit.lua
# Then: sh cluster.sh user:42, with one node of the cluster in REDIS_NODES
set -u
subject=$1 # dim:value, without blanks and braces
node=${REDIS_NODES:-127.0.0.1:6379}

# -c goes to the node that owns the key. The script is sent each time, so it does not matter which
# nodes know it. After a lost connection redis-cli gives up and sends nothing again.
answer=$(redis-cli -c -h "${node%:*}" -p "${node##*:}" \
  --eval limit.lua "tg1:{$subject}:gcra/1h" , 1)
case $answer in
1) echo "allow $subject" ;;
0) echo "deny $subject" && exit 1 ;;
*) echo "no answer: $answer" >&2 && exit 2 ;;
esac
