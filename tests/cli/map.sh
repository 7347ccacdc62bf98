#!/usr/bin/env bash
# tests/cli/map.sh SOURCE: the source is as the table in src/README.md says. Each folder with C files has a row, each row
# has its folders, and a file includes, directly or through headers, only files of its own folder or of the row's last
# column. What rows allow has no circle: no two folders may include each other, also not through others.
set -euo pipefail
cd "$1"

# The library does not know the flags of the program: no sentence of its own names one. Those of launchers it knows.
if grep -rnE '"([^"\\]|\\.)*--[a-z]' src --include='*.[ch]' | grep -vE '(mpirun|srun) --[a-z]'; then
  echo "map: a text in src names a flag of the program"
  exit 1
fi

# The include lines of all files, each file once at least, as FILE LINE.
lines() {
  find include src tools examples -name '*.[ch]' -o -name '*.cpp' | sort | while read -r file; do
    awk -v file="$file" 'BEGIN { print file } /^ *# *include / { print file, $0 }' "$file"
  done
}

lines | awk -v map=src/README.md '
function wrong(sentence) { print "map: " sentence; failed = 1 }
function folder_of(path) { sub("/[^/]*$", "", path); return path }

# Names between backquotes: from the root if they begin with a slash, else from src.
function names(cell, list,    count, name) {
  for (count = 0; match(cell, /`[^`]+`/); cell = substr(cell, RSTART + RLENGTH)) {
    name = substr(cell, RSTART + 1, RLENGTH - 2)
    name = name ~ /^\// ? substr(name, 2) : "src/" name
    sub("/$", "", name)
    list[++count] = name
  }
  return count
}

function read_map(    line, cell, cells, folders, targets, n, m, i, j, inside) {
  while ((getline line < map) > 0) {
    if (line ~ /^\| *folder *\|.*\| *may include *\|$/) { inside = 1; continue }
    if (line !~ /^\|/) inside = 0
    if (!inside || line ~ /^\|-/) continue
    cells = split(line, cell, "|")
    n = names(cell[2], folders)
    m = names(cell[cells - 1], targets)
    if (!n) wrong("a row names no folder: " line)
    if (!m && cell[cells - 1] !~ /^ *- *$/) wrong("the last column neither names something nor is -: " line)
    for (i = 1; i <= n; i++) {
      if (folders[i] in row) wrong(folders[i] " has two rows")
      row[folders[i]] = 1
      for (j = 1; j <= m; j++) { allowed[folders[i], targets[j]] = 1; target[targets[j]] = 1 }
    }
  }
}

# Where an include with quotes is looked up: src for the library, tools for the program and the examples, which may also
# take something of the core.
function resolve(file, name) {
  if (file ~ /^include\//) return "include/" name
  if (file ~ /^examples\// && name !~ /\//) return "examples/" name
  return (file ~ /^src\// || name ~ /^core\// ? "src/" : "tools/") name
}

# What `file` includes through `header`, which it may include if its row allows it.
function visit(file, header, through,    i, folder, other) {
  if (seen[file, header]++) return
  folder = folder_of(file)
  other = folder_of(header)
  if (folder != other && !((folder, other) in allowed) && !((folder, folder_of(other) "/*") in allowed) &&
      !((folder, header) in allowed))
    wrong(file " includes " header (through == file ? "" : " through " through) ", which its row does not allow")
  for (i = 1; i <= included[header]; i++) visit(file, include[header, i], header)
}

function may_include(from, to,    name) {
  for (name in folder)
    if (name != from && (name == to || folder_of(name) "/*" == to || to in exists && folder_of(to) == name))
      direct[from, name] = reaches[from, name] = 1
}

function find_circles(    pair, part, from, via, to) {
  for (pair in allowed) { split(pair, part, SUBSEP); may_include(part[1], part[2]) }
  for (via in folder)
    for (from in folder)
      if ((from, via) in reaches) for (to in folder) if ((via, to) in reaches) reaches[from, to] = 1
  for (pair in direct) {
    split(pair, part, SUBSEP)
    if ((part[2], part[1]) in reaches) wrong("a circle: " part[1] " may include " part[2] ", which leads back to it")
  }
}

NF == 1 { exists[$1] = 1; folder[folder_of($1)] = 1; next }
{
  if (match($0, /"[^"]+"/)) include[$1, ++included[$1]] = resolve($1, substr($0, RSTART + 1, RLENGTH - 2))
  else if (match($0, /<accrue\/[^>]+>/)) public[$1, ++count[$1]] = "include/" substr($0, RSTART + 1, RLENGTH - 2)
}

END {
  read_map()
  for (name in folder) if (!(name in row)) wrong("the table does not name the folder " name)
  for (name in row) if (!(name in folder)) wrong("there is no C in " name ", which has a row")
  for (name in folder) folder_with[folder_of(name) "/*"] = 1
  for (name in target) if (!(name in folder) && !(name in exists) && !(name in folder_with)) wrong("a row allows " name ", which is not there")
  find_circles()
  for (file in exists) {
    for (i = 1; i <= included[file]; i++)
      if (include[file, i] in exists) visit(file, include[file, i], file)
      else wrong(file " includes " include[file, i] ", which is not there: paths begin in src, or in tools")
    for (i = 1; i <= count[file]; i++)
      if (!(public[file, i] in exists)) wrong(file " includes " public[file, i] ", which is not there")
    files++
  }
  if (!failed) print files " files in " length_of(folder) " folders include what the map allows"
  exit failed
}
function length_of(list,    name, n) { for (name in list) n++; return n }
' | sort
