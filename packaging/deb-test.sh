#!/bin/sh
# In a clean root with /old.deb and /new.deb: installed, started, upgraded, removed, purged. `./x deb-test` runs it.
set -eu

say() { echo "deb-test: $*"; }
fail() { say "FAILED: $*"; exit 1; }
wait_for() { # a condition, for ten seconds
	for _ in $(seq 100); do if eval "$1"; then return; fi; sleep 0.1; done
	fail "never: $1"
}
start() { # as the unit does, for there is no systemd here
	install -d -o martlet -g martlet /run/martlet
	runuser -u martlet -- redis-server /etc/martlet/martlet.conf --daemonize yes
	wait_for '[ "$(redis-cli PING)" = PONG ]'
}
stop() {
	redis-cli SHUTDOWN SAVE || true
	wait_for '[ ! -e /run/martlet/martlet.pid ]'
}

say install
dpkg -i /old.deb
getent passwd martlet >/dev/null || fail "there is no user"
[ "$(stat -c %U:%a /etc/martlet/martlet.conf)" = martlet:640 ] || fail "the configuration can be read by others"
[ "$(stat -c %U:%a /var/lib/martlet)" = martlet:750 ] || fail "the data's directory is not the user's"
[ -e /lib/systemd/system/martlet.service ] || [ -e /usr/lib/systemd/system/martlet.service ] || fail "there is no unit"
[ "$(readlink -f /usr/bin/redis-cli)" = /usr/bin/martlet ] || fail "redis-cli is no link"
martlet server --check-config /etc/martlet/martlet.conf

say manual and completions
for page in /usr/share/man/man1/martlet*.1.gz; do
	said=$(man --warnings=w --local-file "$page" 2>&1 >/dev/null) || fail "$page: $said"
	[ -z "$said" ] || fail "$page: $said"
done
for name in martlet martlet-server martlet-cli martlet-bench; do
	man --where "$name" >/dev/null || fail "there is no page $name"
	whatis "$name" >/dev/null || fail "the index has no $name"
done
bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader martlet; complete -p martlet' |
	grep -q -- '-F _martlet' || fail "bash does not complete martlet"
[ "$(zsh -f -c 'autoload -U compinit; compinit -D; print $_comps[martlet]')" = _martlet ] || fail "zsh does not complete martlet"
fish -c 'complete -C "martlet ser"' | grep -q '^server' || fail "fish does not complete martlet"

say start
start
[ "$(redis-cli SET greeting hello)" = OK ] || fail "SET"
[ "$(redis-cli CONFIG SET maxmemory 100mb)" = OK ] && [ "$(redis-cli CONFIG REWRITE)" = OK ] || fail "CONFIG REWRITE"
[ -s /var/log/martlet/martlet.log ] || fail "there is no log"
logrotate --force /etc/logrotate.d/martlet
stop

say upgrade
DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /new.deb
grep -q '^maxmemory ' /etc/martlet/martlet.conf || fail "the configuration was replaced"
start
[ "$(redis-cli GET greeting)" = hello ] || fail "the data is gone"
stop

say remove
dpkg -r martlet
[ ! -e /usr/bin/martlet ] && [ ! -L /usr/bin/redis-cli ] || fail "programs are left"
[ -s /var/lib/martlet/dump.rdb ] || fail "the data is gone"
[ -e /etc/martlet/martlet.conf ] || fail "the configuration is gone"
dpkg -P martlet
[ ! -e /etc/martlet ] && [ ! -e /var/log/martlet ] || fail "the configuration or the logs are left"
[ -s /var/lib/martlet/dump.rdb ] || fail "the data is gone"

say beside another package
printf '#!/bin/sh\n' > /usr/bin/redis-server
chmod 755 /usr/bin/redis-server
dpkg -i /new.deb
[ ! -L /usr/bin/redis-server ] || fail "another package's program was replaced"
dpkg -P martlet
[ -e /usr/bin/redis-server ] || fail "another package's program was removed"
say passed
