#!/usr/bin/env bash
# A Debian package of the program and the default model, from the tree that packaging/linux.sh writes:
#   packaging/deb.sh               builds the program first; writes target/dist/polyhead_VERSION_ARCHITECTURE.deb
#   packaging/deb.sh --program F   the same with the program F, without a build
#   sudo apt install ./target/dist/polyhead_*.deb
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/packaging/linux.sh" "$@"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
dist=${POLYHEAD_DIST:-$root/target/dist}
tree=$dist/polyhead-$version-$(uname -m)-linux
architecture=$(dpkg --print-architecture)
package=$dist/deb
rm -rf "$package"
mkdir -p "$package/DEBIAN" "$package/usr"
cp -r "$tree/bin" "$tree/share" "$package/usr/"
doc=$package/usr/share/doc/polyhead
{ cat "$doc/LICENSE"; echo; cat "$doc/LICENSE-MIT"; echo; cat "$doc/LICENSE-APACHE"; } > "$doc/copyright"
rm "$doc"/LICENSE*
# A static program needs nothing; a dynamic one needs the glibc that it was built with.
depends=
symbols=$({ grep -aoE 'GLIBC_2\.[0-9]+' "$tree/bin/polyhead" || true; } | sort -uV | tail -n 1)
if [ -n "$symbols" ]; then depends="Depends: libc6 (>= ${symbols#GLIBC_}), libgcc-s1"; fi
cat > "$package/DEBIAN/control" <<CONTROL
Package: polyhead
Version: $version
Architecture: $architecture
Maintainer: The Polyhead authors <polyhead@localhost>
Installed-Size: $(du -sk "$package/usr" | cut -f1)
Section: text
Priority: optional
${depends:+$depends
}Description: trains, runs, serves and inspects attention models
 Translation on the command line and over HTTP, with a small model that
 translates between English, German, French and Turkish.
CONTROL
chmod 755 "$package/DEBIAN"
deb=$dist/polyhead_${version}_$architecture.deb
dpkg-deb --root-owner-group "-Z${POLYHEAD_DEB_COMPRESSION:-xz}" --build "$package" "$deb" > /dev/null
rm -rf "$package"
echo "wrote $deb ($(du -h "$deb" | cut -f1))"
