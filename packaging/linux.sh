#!/usr/bin/env bash
# A Linux program with the default model, manual pages and completions, to be unpacked anywhere:
#   packaging/linux.sh             builds a static program and writes target/dist/polyhead-VERSION-x86_64-linux.tar.gz
#   packaging/linux.sh --program F the same with the program F, without a build
# The build needs no C compiler. It is static (musl) where Rust's target is there: rustup target add x86_64-unknown-linux-musl.
# Otherwise it needs the glibc of this machine or a newer one.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
program=
case "${1:-}" in
    "") ;;
    --program) program=$(realpath "${2:?--program needs a file}") ;;
    *) echo "usage: packaging/linux.sh [--program FILE]" >&2; exit 2 ;;
esac
cd "$root"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
machine=$(uname -m)
dist=${POLYHEAD_DIST:-$root/target/dist}
name=polyhead-$version-$machine-linux

if [ -z "$program" ]; then
    host=$machine-unknown-linux-gnu static=$machine-unknown-linux-musl
    sysroot=$(rustc --print sysroot)
    if [ -d "$sysroot/lib/rustlib/$static" ]; then target=$static; else target=$host; fi
    echo "building for $target"
    # A folder of its own, since other flags would compile everything again; no path of this machine in the program.
    export CARGO_TARGET_DIR=$root/target/packaged POLYHEAD_PACKAGED=1
    export RUSTFLAGS="--remap-path-prefix=$root=polyhead --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"
    cargo build --release --locked --package polyhead --target "$target"
    program=$CARGO_TARGET_DIR/$target/release/polyhead
fi

tree=$dist/$name
rm -rf "$tree"
mkdir -p "$tree/bin" "$tree/share/polyhead/models" "$tree/share/doc/polyhead"
install -m 755 "$program" "$tree/bin/polyhead"
cp -r models/default "$tree/share/polyhead/models/default"
install -m 644 README.md LICENSE LICENSE-MIT LICENSE-APACHE "$tree/share/doc/polyhead/"
"$tree/bin/polyhead" --quiet man --out "$tree/share/man/man1"
gzip -9 -n "$tree"/share/man/man1/*.1
completions() { mkdir -p "$tree/share/$2"; "$tree/bin/polyhead" completions "$1" > "$tree/share/$2/$3"; }
completions bash bash-completion/completions polyhead
completions zsh zsh/vendor-completions _polyhead
completions fish fish/vendor_completions.d polyhead.fish
find "$tree" -type d -exec chmod 755 {} +
find "$tree/share" -type f -exec chmod 644 {} +

archive=$dist/$name.tar.gz
tar -C "$dist" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - "$name" | gzip "-${POLYHEAD_GZIP:-9}" -n > "$archive"
echo "wrote $tree"
echo "wrote $archive ($(du -h "$archive" | cut -f1))"
