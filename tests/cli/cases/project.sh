# A project in C, as the program writes it. Sourced by cases.sh.

case_project() {
  local template=$here/../../examples/template
  run init my_project >out
  diff -r my_project "$template" || die "the project is not the template"
  grep -q '^my_project has a project in C: .gitignore CMakeLists.txt Makefile README.md main.c$' out || die "$(cat out)"
  grep -qx 'Build it: cmake -S my_project -B my_project/build && cmake --build my_project/build' out || die "$(cat out)"

  # What is there stays as it is.
  echo mine >my_project/main.c
  refuse 1 'my_project exists; give the name of a new folder' init my_project
  [[ $(cat my_project/main.c) == mine ]] || die "init has written into a folder that was there"
  refuse 1 'cannot make the folder no/such: No such file' init no/such
  refuse 2 'init takes one folder' init
  refuse 2 'init takes one folder' init one two
  refuse 2 'init takes one folder' init ""
  [[ ! -e one && ! -e two ]] || die "a folder was made"

  # A project that cannot be written whole is removed.
  local got=0
  (ulimit -f 1 && exec "$PROGRAM" init large) 2>err || got=$?
  ((got == 1)) && grep -q '^accrue: cannot write the project into large: ' err || die "status $got: $(cat err)"
  [[ ! -e large ]] || die "a half-written project stays: $(ls -A large)"
}
