#!/bin/sh
# A backup script that proves each backup by a restore.
#
#   backup.sh [-b BINARY] [-d DATA] [-p PASSPHRASE_FILE] [-k KEEP] [DIRECTORY]
#
# It copies the data file into DIRECTORY, whether the controller runs or not, restores the copy to another place, checks the result, and then
# removes all but the KEEP newest copies that it made there. DIRECTORY must exist, so that a disk that is not mounted is an error.
# It needs no working directory and no variables, so that a line of a crontab is enough:
#
#   15 3 * * * root /usr/local/share/overkeep/backup.sh -d /var/lib/overkeep/overkeep.redb -k 14 /var/backups/overkeep
#
# On success it prints one line to stdout. Otherwise it prints the output up to the failed step to stderr and exits with the status of that
# step: 3 if the file or the copy has faults, 1 if the step cannot be done, 2 if the command line is wrong.
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

# Runs a command of the program. The first failure ends the backup.
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

# Only a proven copy gets its name, and only then older ones are removed.
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
if grep -q 'they and their certificates are not checked' "$scratch/said"; then note='; the keys are sealed and were not checked'; fi
echo "backup: $directory/$name is proven, sha256 of the content $hash; $# kept, $removed removed$note"
