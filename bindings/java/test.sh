#!/bin/sh
# Builds the package into a folder and runs its tests, or those with a word in their name:
#
#   TOLLGATE_BIN=target/debug/tollgate sh bindings/java/test.sh target/java [WORD]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to, e.g. target/java}
jars=${TOLLGATE_JAVA_JARS:-/usr/share/java}
shift
sh "$here/build.sh" "$out"
path=$out/tollgate.jar:$jars/servlet-api.jar:$jars/jakarta-servlet-api.jar
javac --release 17 -encoding UTF-8 -Xlint:all -Werror -d "$out/tests" -cp "$path" "$here"/tests/*.java
# It lives for seconds: compiled in haste it is quicker.
exec java -XX:TieredStopAtLevel=1 -Dtollgate.root="$here/../.." -cp "$path:$out/tests" Tests "$@"
