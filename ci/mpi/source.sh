# shellcheck shell=bash
# Sourced: where MPICH's source package comes from. Needs `say`.

# Fetches it into a directory, with lists of our own made of where the system's own
# packages come from. Status 3 where it cannot be had.
fetch_mpich() { # directory
  local dir=$1
  command -v apt-get >/dev/null 2>&1 ||
    { say "no apt-get here: put mpich_*.orig.tar.* into $dir"; return 3; }
  mkdir -p "$dir/apt/lists/partial" "$dir/apt/cache/archives/partial"
  # (apt's own placeholders.)
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(SIGNED_BY)' \
    'Created-By: Packages' 2>/dev/null | sort -u |
    while read -r uri release component signed; do
      case $component in main | universe) ;; *) continue ;; esac
      # Updates and backports have no other mpich, only more to read.
      case $release in *-updates | *-security | *-backports) continue ;; esac
      # Not every apt knows the last of them; the distribution's keys are trusted anyway.
      case $signed in '$('*) signed= ;; esac
      echo "deb-src ${signed:+[signed-by=$signed] }$uri $release $component"
    done >"$dir/apt/sources.list"
  [ -s "$dir/apt/sources.list" ] || { say "apt-get names no package lists; run apt-get update"; return 3; }
  local apt=(-qq -o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=-
    -o "Dir::State::lists=$dir/apt/lists" -o "Dir::Cache=$dir/apt/cache"
    -o APT::Sandbox::User=)
  say "fetching the source of mpich"
  (cd "$dir" && timeout 300 apt-get "${apt[@]}" update &&
    timeout 300 apt-get "${apt[@]}" source --download-only mpich) >"$dir/fetch.log" 2>&1 ||
    { tail -n 5 "$dir/fetch.log" >&2; say "the source package of mpich cannot be had"; return 3; }
}
