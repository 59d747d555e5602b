# Keeps a folder of the test kit, and the server that may run in it, no longer than somebody uses them.
#
#   sh guard.sh FOLDER LOCK IDLE     when nobody has used it for IDLE seconds
#   sh guard.sh FOLDER               now
#
# Users hold a shared lock on FOLDER/users, which the system takes from them however they end; so neither a crashed nor
# a killed test leaves a server behind. LOCK is held while somebody becomes a user and while the folder goes away.

folder=$1 lock=$2 idle=$3
name=${folder##*/}
exec 2>/dev/null
trap '' HUP INT

wait_for_users() {
    exec 7<"$folder/guard" 8<"$folder/users" 9<"$lock" || exit 1
    # One guard is enough. Its helpers do not have this lock, or a killed guard could seem to live on in them.
    flock -n 7 || exit 0
    while :; do
        # Until the last of them has gone.
        flock 8 7<&- && flock -u 8
        rest=$idle
        while [ "$rest" -gt 0 ] && [ -d "$folder" ] && flock -n 8; do
            flock -u 8
            sleep 1 7<&-
            rest=$((rest - 1))
        done
        flock 9 7<&-
        flock -n 8 && return
        flock -u 9
    done
}

# The processes of the server with $1 in their command line or title, which can be read without special rights. All of
# them have the unique name of the folder there; so do the shell and its helpers, but they are not called postgres.
members() {
    for entry in /proc/[0-9]*; do
        title=
        read -r title <"$entry/cmdline"
        case $title in
            postgres*"$1"* | /*/postgres*"$1"*) echo "${entry#/proc/}" ;;
        esac
    done
}

[ -z "$lock" ] || wait_for_users

# An orderly end first. Only the main process has the path of the data in its command line.
kill -QUIT $(members "$name/data")
tries=0
while [ -n "$(members "$name")" ]; do
    [ "$tries" -ge 50 ] && kill -KILL $(members "$name")
    [ "$tries" -ge 100 ] && break
    tries=$((tries + 1))
    sleep 0.1
done

# A server that was killed has left this file, and in it the number of a piece of shared memory that would stay until
# the next boot. The system has room for a few thousand of them.
memory=$(sed -n '7s/^ *[0-9][0-9]*  *\([0-9][0-9]*\)$/\1/p' "$folder/data/postmaster.pid")
[ -z "$memory" ] || ipcrm -m "$memory"
rm -rf -- "$folder"
