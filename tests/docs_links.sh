#!/usr/bin/env bash
# tests/docs_links.sh SOURCE: each relative link in a page (*.md) leads to a file or folder, and each #part of one to a
# heading, by GitHub's rule for their names. docs/README.md, or the README.md of a
# folder in docs, leads to each page of docs.
set -euo pipefail
cd "$1"
pages() { find . \( -name .git -o -name build \) -prune -o -name '*.md' -type f -print; }
(($(pages | wc -l) > 10)) || { echo "only $(pages | wc -l) pages were found" >&2; exit 1; }

{
  find . \( -name .git -o -path ./build \) -prune -o -print | sed 's/^/path /'
  pages | sed 's/^/page /'
} | LC_ALL=C awk '
  # "a/b/../c/./d" as "a/c/d"
  function whole(path,  parts, kept, count, i, n) {
    n = split(path, parts, "/")
    count = 0
    for (i = 1; i <= n; i++) {
      if (parts[i] == "" || parts[i] == ".") continue
      if (parts[i] == ".." && count) count--
      else kept[++count] = parts[i]
    }
    path = "."
    for (i = 1; i <= count; i++) path = path "/" kept[i]
    return path
  }
  function anchor(heading) {
    gsub(/\]\([^)]*\)/, "", heading)
    heading = tolower(heading)
    gsub(/[^a-z0-9 _\200-\377-]/, "", heading)
    gsub(/ /, "-", heading)
    return heading
  }
  function read_page(page,  line, fenced, number, name, target, folder) {
    folder = page
    sub(/[^\/]*$/, "", folder)
    fenced = number = 0
    while ((getline line <page) > 0) {
      number++
      if (line ~ /^ *```/) fenced = !fenced
      if (fenced || line ~ /^    /) continue
      if (line ~ /^#+ /) {
        name = line
        sub(/^#+ +/, "", name)
        name = anchor(name)
        if (page "#" name in heading) name = name "-" ++again[page "#" name]
        heading[page "#" name] = 1
      }
      gsub(/`[^`]*`/, "x", line)
      while (match(line, /\]\([^)]*\)/)) {
        target = substr(line, RSTART + 2, RLENGTH - 3)
        line = substr(line, RSTART + RLENGTH)
        sub(/ ".*"$/, "", target)
        if (target ~ /^[a-z]+:/) continue
        from[++links] = page ":" number
        shown[links] = target
        to[links] = target ~ /^#/ ? page target : folder target
      }
    }
    close(page)
  }
  $1 == "path" { there[substr($0, 6)] = 1 }
  $1 == "page" { page[++count] = substr($0, 6); read_page(page[count]) }
  END {
    for (i = 1; i <= links; i++) {
      path = to[i]
      part = ""
      if (match(path, /#/)) {
        part = substr(path, RSTART)
        path = substr(path, 1, RSTART - 1)
      }
      path = whole(path)
      if (!(path in there)) bad = bad from[i] ": there is no " shown[i] "\n"
      else if (part != "" && path ~ /\.md$/ && !(path part in heading)) bad = bad from[i] ": no heading is " shown[i] "\n"
      if (from[i] ~ /^\.\/docs\/(.*\/)?README\.md:/) indexed[path] = 1
    }
    for (i = 1; i <= count; i++)
      if (page[i] ~ /^\.\/docs\// && page[i] != "./docs/README.md" && !(page[i] in indexed))
        bad = bad "docs/README.md does not lead to " page[i] "\n"
    if (links < 50) bad = bad "only " links " links were found\n"
    printf "%s", bad >"/dev/stderr"
    exit bad != ""
  }'
