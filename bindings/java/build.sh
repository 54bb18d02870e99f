#!/bin/sh
# Builds tollgate.jar into a folder: the client, and the filter for servlets. The filter is one
# source for both names of the API: javax.servlet (Servlet 4, Debian's libservlet-api-java) and, in
# the package tollgate.jakarta, jakarta.servlet (Servlet 5, libjakarta-servlet-api-java). Either is
# left out where its API is not there, and a line says it.
#
#   sh bindings/java/build.sh target/java
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?where to, e.g. target/java}
jars=${TOLLGATE_JAVA_JARS:-/usr/share/java}

rm -rf "$out/classes" "$out/sources"
mkdir -p "$out/classes" "$out/sources/tollgate/jakarta"
set -- "$here"/src/tollgate/*.java
path=$out/classes
if [ -f "$jars/servlet-api.jar" ]; then
    set -- "$@" "$here"/servlet/tollgate/servlet/*.java
    path=$path:$jars/servlet-api.jar
else
    echo "left out: javax.servlet (apt-get install libservlet-api-java)"
fi
if [ -f "$jars/jakarta-servlet-api.jar" ]; then
    for source in "$here"/servlet/tollgate/servlet/*.java; do
        made=$out/sources/tollgate/jakarta/$(basename "$source")
        sed -e 's/javax\.servlet/jakarta.servlet/g' \
            -e 's/^package tollgate\.servlet/package tollgate.jakarta/' "$source" > "$made"
        set -- "$@" "$made"
    done
    path=$path:$jars/jakarta-servlet-api.jar
else
    echo "left out: jakarta.servlet (apt-get install libjakarta-servlet-api-java)"
fi
# One run for all: a compiler of Java takes longest to start.
javac --release 17 -encoding UTF-8 -Xlint:all -Werror -d "$out/classes" -cp "$path" "$@"
jar --create --file "$out/tollgate.jar" -C "$out/classes" .
