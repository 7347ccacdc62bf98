# Pages of the manual, as the program writes them. Sourced by cases.sh.

# The pages that a page refers to.
named_pages() { awk '/^\.SH "SEE ALSO"/ {inside = 1; next} inside' "$1" | sed 's/\\-/-/g; s/\\f[BR]//g; s/(1),\{0,1\}$//'; }
plain_page() { sed 's/\\-/-/g; s/\\f[BIR]//g; s/|\\:/|/g; s/\\(aq/'\''/g; s/\\(dq/"/g; s/\\(ti/~/g; s/\\(ha/^/g; s/\\&//g' "$1"; }

# Every command is reached from the page before it, and says in its page what it says on a terminal.
man_of() { # WORD...: the command
  local words=("$@") page name child flag title
  name=$(IFS=- && echo "accrue${*:+-$*}")
  run "$@" --help=man >"pages/$name.1"
  run "$@" --help all >help
  page=pages/$name.1
  plain_page "$page" >plain
  title=$(tr '[:lower:]' '[:upper:]' <<<"$name")
  grep -q "^\.TH $title 1 " plain || die "$name: $(head -n 1 plain)"
  grep -q "^$name \\\\*- " <(grep -A1 '^\.SH NAME' plain) || die "$name has no line for a catalogue"
  ! grep -A1 '^\.SH NAME' plain | grep -qE '( the|[:,])$' || die "$name: the line for a catalogue ends within its sentence"
  sed -nE 's/^  (--[a-z0-9-]+).*/\1/p' help | sort -u | while read -r flag; do
    grep -qE -- "^$flag( |\$)" plain || grep -qE -- "(^| )$flag( |\$)" plain || die "$name lacks $flag"
  done
  # What is typed must come out as it is typed.
  ! grep -v '^\.' "$page" | grep -E '(^|[^\])-' || die "$name has hyphens that are not minus signs"
  # And the beginning of its text, of one of its meanings.
  offered | sort -u >names
  awk -F '\t' 'FILENAME == "plain" { page = page $0 "\n" }
    FILENAME == "titles" { title[$1, ++meanings[$1]] = $2 }
    FILENAME == "names" {
      found = 0
      for (i = 1; i <= meanings[$1]; i++) if (index(page, title[$1, i])) found = 1
      if (!found) print $1
    }' plain titles names >lacking
  [[ ! -s lacking ]] || die "$name lacks the texts of: $(cat lacking)"
  if command -v groff >/dev/null; then
    groff -man -ww -z -Tutf8 "$page" 2>groff.err || die "groff: $name"
    [[ ! -s groff.err ]] || die "groff on $name: $(cat groff.err)"
  fi
  while read -r child; do
    [[ $child == "$name"-* ]] || continue
    man_of ${words[@]+"${words[@]}"} "${child#"$name"-}"
  done < <(named_pages "$page")
}

case_man() {
  mkdir pages
  # Names of flags, and how their texts begin, without the marks.
  awk 'FNR == 1 { keys = 2 } /^---$/ { keys--; next } keys && /^name: / { name = substr($0, 7) }
    !keys && NF && !(FILENAME in seen) { seen[FILENAME]; print name "\t" $0 }' "$flag_folder"/[a-z]*.md |
    sed 's/[«»]/"/g; s/`//g; s/\*\*//g; s/\[\([^]]*\)\]([^)]*)/\1/g' >titles
  (($(wc -l <titles) > 100)) || die "only $(wc -l <titles) texts"
  man_of
  [[ -s pages/accrue-train-gpt.1 && -s pages/accrue-eval-mlp.1 && -s pages/accrue-bench-gemm.1 ]] ||
    die "the pages are $(ls pages)"
  run --help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | while read -r command; do
    [[ -s pages/accrue-$command.1 ]] || die "no page for accrue $command"
  done
  # Those that the build has written are these. Other programs of the tests have none.
  if [[ ! ${MAN_PAGES:-} ]]; then return; fi
  diff -r pages "$MAN_PAGES" || die "the build's pages are others"
}
