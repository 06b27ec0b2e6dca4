#!/bin/sh
# A backup that is proven before anyone needs it: backup.sh DIRECTORY [CONFIG]
# Ends with 0, or with the status of the first step that fails: 3 if something is wrong with the file or the copy, 1 if it cannot be done.
set -eu
to=$1/overkeep-$(date -u +%Y%m%dT%H%M%SZ)-$$.backup
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
overkeep check ${2:+--config "$2"}
overkeep snapshot "$to" ${2:+--config "$2"}
overkeep restore --verify-only "$to" ${2:+--config "$2"}
overkeep restore "$to" --data "$scratch/data" ${2:+--config "$2"}
overkeep check --data "$scratch/data" ${2:+--config "$2"}
echo "$to"
