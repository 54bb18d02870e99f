#!/bin/sh
# Asks a limit on Redis with redis-cli alone: 0 admitted, 1 denied, 2 no answer.
#
# limit.lua is made once, wherever `tollgate` is:
#   tollgate scripts "2/h via gcra" --answer boolean --format lua > limit.lua
# Then: sh limit.sh user:42
set -u
subject=$1 # dim:value, without blanks and braces

# The script is sent each time: there is nothing to keep, and nothing that a restart could forget.
answer=$(redis-cli --eval limit.lua "tg1:{$subject}:gcra/1h" , 1)
case $answer in
1) echo "allow $subject" ;;
0) echo "deny $subject" && exit 1 ;;
*) echo "no answer: $answer" >&2 && exit 2 ;;
esac
