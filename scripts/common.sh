# Shared by the shell scripts of this folder; they source it.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Debian's cmake, ninja and python3, whatever else the user has installed.
export PATH=/usr/bin:/bin:$PATH
# Lets ccache share objects between clones, and use precompiled headers.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# say TEXT: one line of progress, behind the script's name.
say() {
  echo "$(basename "$0"): $*" >&2
}

fail() {
  say "error: $*"
  exit 1
}

# quietly WHAT COMMAND...: runs COMMAND with its output kept away; says WHAT,
# then how long it took. If COMMAND fails, shows the end of its output and ends
# the script.
quietly() {
  local what=$1 start=$SECONDS log
  shift
  log=$(mktemp)
  say "$what ..."
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    fail "$what failed after $((SECONDS - start)) s (command: $*)"
  fi
  rm -f "$log"
  say "$what: $((SECONDS - start)) s"
}
