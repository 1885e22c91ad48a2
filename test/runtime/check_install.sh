#!/bin/sh
# Installs the runtime and builds the C program of examples/embed against it,
# once through the CMake package and once through pkg-config.
# usage: check_install.sh BUILD SOURCE CMAKE CC ARTIFACT FLAGS
set -eu
build=$1 source=$2 cmake=$3 cc=$4 artifact=$5 flags=$6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --component runtime --prefix "$work/first" >/dev/null
# Moved: nothing installed may know where it was.
mv "$work/first" "$work/installed"

"$cmake" -G Ninja -S "$source/examples/embed" -B "$work/embed" \
  -DCMAKE_PREFIX_PATH="$work/installed" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_C_FLAGS="$flags" >/dev/null
"$cmake" --build "$work/embed" >/dev/null
"$work/embed/embed" "$artifact" 20,21,22 30,31 | tee "$work/output"
grep -q 'first\[1\] =  30.000000' "$work/output"
grep -q 'similarity of 0 and 1: 0\.' "$work/output"

pc=$(find "$work/installed" -name encast.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
# Word splitting of the flags is wanted.
"$cc" $flags "$source/examples/embed/embed.c" -o "$work/embed-pc" \
  $(pkg-config --cflags --libs encast) -lm
LD_LIBRARY_PATH=$(pkg-config --variable=libdir encast) \
  "$work/embed-pc" "$artifact" 20,21,22 30,31 >"$work/output-pc"
cmp "$work/output" "$work/output-pc"

# Errors of the program are the library's.
if "$work/embed/embed" "$artifact" 100 2>"$work/error"; then exit 1; fi
grep -q 'id 100 is outside of the vocabulary' "$work/error"

printf '[20, 21]\n' |
  "$work/installed/bin/encast-run" "$artifact" --ids - --out "$work/out.npy"
"$work/installed/bin/encast-inspect" "$artifact" >/dev/null

# An empty part of a library path is the current folder, whatever lies there.
for program in "$build"/bin/encast* "$work/installed"/bin/*; do
  if readelf -d "$program" | grep -E 'R(UN)?PATH.*(\[:|::|:\])'; then exit 1; fi
done
