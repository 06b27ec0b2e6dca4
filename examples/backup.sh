#!/bin/sh
# A backup that is proven before anyone needs it.
#
#   backup.sh [-b BINARY] [-d DATA] [-p PASSPHRASE_FILE] [-k KEEP] [DIRECTORY]
#
# It copies the data file into DIRECTORY while the controller runs or not, restores the copy aside, checks what was restored, and then
# removes all but the KEEP newest copies that it made there. DIRECTORY must exist: a disk that is not mounted is a failure.
# It relies on no working directory and on no variable, so a line of a crontab is enough:
#
#   15 3 * * * root /usr/local/share/overkeep/backup.sh -d /var/lib/overkeep/overkeep.redb -k 14 /var/backups/overkeep
#
# One line on stdout if all went well. Otherwise what was said up to the step that failed, on stderr, and the status of that step: 3 if
# something is wrong with the file or the copy, 1 if it cannot be done, 2 for a wrong command line.
set -eu
LC_ALL=C
export LC_ALL
umask 077

binary=/usr/local/bin/overkeep
data=/var/lib/overkeep/overkeep.redb
passphrase=
keep=14
directory=/var/backups/overkeep

wrong() {
    echo "backup.sh: $1" >&2
    exit 2
}
while getopts b:d:p:k: option; do
    case $option in
    b) binary=$OPTARG ;;
    d) data=$OPTARG ;;
    p) passphrase=$OPTARG ;;
    k) keep=$OPTARG ;;
    *) wrong 'usage: backup.sh [-b BINARY] [-d DATA] [-p PASSPHRASE_FILE] [-k KEEP] [DIRECTORY]' ;;
    esac
done
shift $((OPTIND - 1))
[ $# -le 1 ] || wrong "one directory, not $#"
directory=${1:-$directory}
for path in "$binary" "$data" "${passphrase:-/}" "$directory"; do
    case $path in
    /*) ;;
    *) wrong "$path is not an absolute path" ;;
    esac
done
case $keep in
'' | *[!0-9]* | 0*) wrong "-k $keep is not a whole number above 0" ;;
esac

name=overkeep-$(date -u +%Y%m%dT%H%M%SZ)-$$.backup
scratch=$(mktemp -d "$directory/.backup.XXXXXX") || exit 1
finish() {
    status=$?
    [ "$status" -eq 0 ] || cat "$scratch/said" >&2 || true
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM
: > "$scratch/said"

# A command of the controller's program. The first that fails ends the backup.
ask() {
    if [ -n "$passphrase" ]; then
        "$binary" "$@" --passphrase-file "$passphrase" >> "$scratch/said" 2>&1
    else
        "$binary" "$@" >> "$scratch/said" 2>&1
    fi
}
ask check --data "$data"
ask snapshot "$scratch/$name" --data "$data"
ask restore --verify-only "$scratch/$name" --data "$data"
ask restore "$scratch/$name" --data "$scratch/restored"
ask check --data "$scratch/restored"

# Only a copy that was proven gets its name, and only then an older one goes.
mv "$scratch/$name" "$directory/$name"
sync
set -- "$directory"/overkeep-[0-9]*T[0-9]*Z-[0-9]*.backup
removed=0
while [ $# -gt "$keep" ]; do
    rm -f "$1"
    removed=$((removed + 1))
    shift
done
hash=$(sed -n 's/^sha256 of the content: //p' "$scratch/said" | tail -n 1)
note=
if grep -q 'they and their certificates are not looked at' "$scratch/said"; then note='; the keys are sealed and were not looked at'; fi
echo "backup: $directory/$name is proven, sha256 of the content $hash; $# kept, $removed removed$note"
