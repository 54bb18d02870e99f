#!/bin/sh
# The package from its installation to its purge, under systemd as process 1 of a container.
# `cargo xtask packages` puts it into one, beside first.deb and second.deb, and reads `results`.
cd /life || exit 1
exec >results 2>log

# step NAME COMMAND...: runs it in a new shell, and writes whether it succeeded. Its output is
# the evidence.
step() {
    name=$1
    shift
    if shown=$("$@" 2>&1); then
        echo "passed: $name: $(echo "$shown" | tail -n 1)"
    else
        echo "failed: $name: $(echo "$shown" | tail -n 12 | tr '\n' '|')"
    fi
}

die() {
    echo "$@"
    return 1
}

# check LIMIT: asks the service for one unit.
check() {
    curl --silent --max-time 5 http://127.0.0.1:8700/v1/check \
        --data "{\"subject\": \"user:42\", \"limit\": \"$1\"}"
}

# remaining LIMIT N: one more unit leaves N.
remaining() {
    answer=$(check "$1")
    case $answer in
        *'"allowed":true'*"\"remaining\":$2,"*) echo "$2 left" ;;
        *) die "$2 should be left: $answer" ;;
    esac
}

process() {
    systemctl show --property MainPID --value tollgate
}

status() {
    sed -n "s/^$1:[[:space:]]*//p" "/proc/$(process)/status"
}

installed() {
    dpkg -i first.deb || return 1
    changed=$(dpkg --verify tollgate)
    [ -z "$changed" ] || die "files differ: $changed" || return 1
    dpkg-query --show --showformat '${Version}\n' tollgate
}

silent() {
    # Whoever installs it chooses when it starts.
    [ "$(systemctl is-active tollgate)" = inactive ] || die "it runs" || return 1
    [ "$(systemctl is-enabled tollgate)" = disabled ] || die "it starts with the machine"
}

verified() {
    found=$(systemd-analyze verify tollgate.service 2>&1)
    [ -z "$found" ] || die "$found"
}

secured() {
    systemd-analyze security --no-pager tollgate.service | tail -n 1
    systemd-analyze security --no-pager --offline=true --threshold=15 tollgate.service >/dev/null
}

started() {
    systemctl enable --now tollgate || return 1
    systemctl is-active tollgate
}

answered() {
    remaining 3/h 2 && curl --silent --fail --max-time 5 --unix-socket /run/tollgate/tollgate.sock \
        http://tollgate/healthz
}

confined() {
    [ "$(status Uid | cut -f 1)" -ge 61184 ] || die "its user is $(status Uid)" || return 1
    [ "$(status CapEff)" = 0000000000000000 ] || die "capabilities $(status CapEff)" || return 1
    [ "$(status NoNewPrivs)" = 1 ] && [ "$(status Seccomp)" = 2 ] || die "no sandbox" || return 1
    awk '$5 == "/" { print $6 }' "/proc/$(process)/mountinfo" | grep -q '^ro' ||
        die "its root is writable" || return 1
    echo "user $(status Uid | cut -f 1), no capabilities, its root is read-only"
}

# It takes the user's policies without a restart.
reloaded() {
    before=$(process)
    cat >>/etc/tollgate/policies.toml <<'POLICY'

[[policies]]
name = "of-mine"
when = { path = "/mine" }
limits = [{ subject = "ip", limit = "1/h" }]
on_failure = "deny"
POLICY
    grep -q '^match' /etc/tollgate/policies.toml ||
        sed -i 's/^version = 1$/version = 1\nmatch = "all"/' /etc/tollgate/policies.toml
    systemctl reload tollgate || return 1
    tries=0
    until curl --silent http://127.0.0.1:8700/v1/policies | grep -q of-mine; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || die "the policy is not there" || return 1
        # A signal is not answered, so it can only be asked again.
        sleep 0.1
    done
    [ "$(process)" = "$before" ] || die "it was restarted"
}

kept() {
    systemctl restart tollgate && remaining 3/h 1
}

# It does not start by a broken file, and its journal has the reason.
refused() {
    cp -p /etc/tollgate/policies.toml policies.kept
    echo 'limits = nonsense' >>/etc/tollgate/policies.toml
    if systemctl restart tollgate 2>/dev/null; then
        die "it starts with a broken file"
        return 1
    fi
    systemctl stop tollgate
    journalctl --sync
    journalctl --unit tollgate --output cat --no-pager >said
    grep -q nonsense said && grep '/etc/tollgate/policies.toml:' said | tail -n 1 ||
        die "the reason is not in the journal: $(tail -n 3 said)"
}

mended() {
    cp -p policies.kept /etc/tollgate/policies.toml
    systemctl reset-failed tollgate
    systemctl start tollgate && remaining 3/h 0
}

upgraded() {
    before=$(process)
    dpkg -i second.deb || return 1
    grep -q of-mine /etc/tollgate/policies.toml || die "the user's policies are gone" || return 1
    [ "$(systemctl is-active tollgate)" = active ] || die "it does not run" || return 1
    [ "$(process)" != "$before" ] || die "the old program runs on" || return 1
    check 3/h | grep -q '"allowed":false' || die "counts are gone" || return 1
    dpkg-query --show --showformat '${Version}\n' tollgate
}

removed() {
    dpkg -r tollgate || return 1
    [ ! -e /usr/bin/tollgate ] || die "the program is there" || return 1
    [ "$(systemctl is-active tollgate)" != active ] || die "it runs" || return 1
    grep -q of-mine /etc/tollgate/policies.toml || die "the policies are gone" || return 1
    [ -s /var/lib/private/tollgate/counts.db ] || die "the counts are gone" || return 1
    echo "policies and counts are kept"
}

purged() {
    dpkg -P tollgate || return 1
    left=$(find / -xdev -iname '*tollgate*' -not -path '/life/*' -not -path '/proc/*')
    [ -z "$left" ] || die "left: $left"
}

step installed installed
step "neither started nor enabled" silent
step "its unit, systemd-analyze verify" verified
step "its unit, systemd-analyze security" secured
step started started
step answered answered
step confined confined
step reloaded reloaded
step "counts kept over a restart" kept
step "refused a broken file" refused
step "started once that was mended" mended
step upgraded upgraded
step removed removed
step purged purged
