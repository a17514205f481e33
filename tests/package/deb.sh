#!/usr/bin/env bash
# usage: deb.sh BUILD: makes BUILD/racksh_VERSION_ARCH.deb of what `make install` installs. Used by `make deb`.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
build=$1
arch=$(dpkg --print-architecture)
version=0~git$(git log -1 --format=%cd.%h --date=format:%Y%m%d 2>/dev/null || echo 0)
stage=$(mktemp -d "$build/deb.XXXXXX")
trap 'rm -rf "$stage"' EXIT
root=$stage/root
doc=$root/usr/share/doc/racksh

make -s install BUILD="$build" DESTDIR="$PWD/$root" PREFIX=/usr
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/racksh"
# Debian has a folder of its own for what packages bring zsh.
mkdir -p "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/zsh/site-functions/_racksh" "$root/usr/share/zsh/vendor-completions/"
rmdir "$root/usr/share/zsh/site-functions"

changelog() {
	printf 'racksh (%s) unstable; urgency=medium\n\n  * Made from the sources at this version.\n\n -- racksh developers <racksh@racksh.invalid>  %s\n' \
		"$version" "$(git log -1 --format=%cD 2>/dev/null || date -R)"
}

copyright() {
	printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: racksh\n\n'
	printf 'Files: *\nCopyright: 2026 the racksh developers\nLicense: GPL-3.0-or-later\n'
	printf ' On Debian systems the text of the license is in /usr/share/common-licenses/GPL-3.\n'
}

changelog | gzip -9n >"$doc/changelog.gz"
copyright >"$doc/copyright"
gzip -9n "$root"/usr/share/man/man*/*

# What the binary is linked with, as packages.
mkdir -p "$stage/debian"
printf 'Source: racksh\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info root/usr/bin/racksh 2>/dev/null | sed -n 's/^shlibs:Depends=//p')

mkdir -p "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: racksh
Version: $version
Architecture: $arch
Maintainer: racksh developers <racksh@racksh.invalid>
Installed-Size: $(du -sk "$root" --exclude=DEBIAN | cut -f 1)
Depends: $depends
Suggests: libvirt-clients, openssh-client
Section: admin
Priority: optional
Description: shell for operators of NVIDIA GB300 NVL72 racks
 Knows every rack, tray, GPU, InfiniBand port and NVLink domain, cuts racks
 into virtual machines through libvirt, gives each cluster its own NVLink and
 InfiniBand partition in one journalled operation, and proves over SSH that
 the fabric it handed out is healthy and isolated. A digital twin to rehearse
 on is built in.
END
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod -R u=rwX,go=rX "$root"
deb=$build/racksh_${version}_$arch.deb
rm -f "$build"/racksh_*.deb
dpkg-deb --root-owner-group -b "$root" "$deb" >/dev/null
if command -v lintian >/dev/null; then
	lintian --fail-on error "$deb"
else
	echo "lintian is not installed: the package was not checked"
fi
echo "$deb"
