# Sourced by the scripts that a newcomer runs.

installed_something=no

# Installs the Debian packages named, as far as they are missing, and says so.
install_packages() {
    local missing=() name
    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "This is no Debian system. If something is not found below, install what these packages bring: ${missing[*]}" >&2
        return 0
    fi
    local root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "As root, install first: apt-get install ${missing[*]}" >&2; return 1; }
        root=(sudo)
    fi
    echo "Installing Debian packages: ${missing[*]}"
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    installed_something=yes
}

# Sets up the Meson build folder $1 with the options that follow; again, when packages have come since.
configure() {
    local folder=$1
    shift
    if [ ! -f "$folder/build.ninja" ]; then
        meson setup "$folder" "$@"
    else
        meson configure "$folder" "$@" >/dev/null
        [ $installed_something = no ] || meson setup --reconfigure "$folder"
    fi
}
