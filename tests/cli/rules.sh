#!/usr/bin/env bash
# tests/cli/rules.sh SOURCE: what docs/contribute/style.md says of the source and a search can find.
set -euo pipefail
cd "$1"
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# none SENTENCE < <(search): says what is wrong if the search finds lines, FILE:LINE:TEXT.
none() {
  local found
  if found=$(grep .); then
    echo "rules: $1:"
    echo "$found"
    failed=1
  fi
}

# ---- the operating system ----------------------------------------------------------------------------
# src/core/platform/posix_*.c has all that is the operating system's. Other files of src and the public headers include
# the headers of C, of instruction sets and of the libraries that Accrue needs; they name no function of POSIX's, no
# system, and no file of a system's own.
mapfile -t files < <(find src include -name '*.[ch]' ! -path 'src/core/platform/posix_*.c' | sort)

c='assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|stdatomic'
c+='|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|wchar|wctype'
instructions='cpuid|immintrin|arm_neon|arm_sve'
libraries='accrue/[a-z_]*|CL/cl|cblas|clblast_c|jansson|jerror|jpeglib|mpi|omp|pcre2|png|utf8proc|webp/decode|xxhash|zlib'
none 'a header that is neither of C, of instructions nor of a library that Accrue needs' < <(
  grep -nE '^ *# *include *<' "${files[@]}" | grep -vE "<($c|$instructions|$libraries)\.h>")

# strdup is C23's, as well.
functions='access|chdir|chmod|clock_gettime|clock_nanosleep|close|closedir|dirfd|dladdr|dlclose|dlerror|dlopen'
functions+='|dlsym|dup|dup2|exec[lv][ep]?|fallocate|fchmod|fcntl|fdatasync|fdopen|fileno|flock|flockfile'
functions+='|fmemopen|fnmatch|fork|freelocale|fseeko|fstat|fsync|ftello|ftruncate|funlockfile'
functions+='|get(auxval|cwd|egid|euid|gid|line|delim|pagesize|pid|ppid|rlimit)|getrusage|gettimeofday|gettid'
functions+='|getuid|glob|gmtime_r|isatty|kill|link|localtime_r|lseek|lstat|madvise|mkdir|mkdtemp|mkfifo|mkstemp'
functions+='|mlock|mmap|mprotect|munmap|nanosleep|newlocale|nftw|open|openat|open_memstream|opendir|pclose|pipe'
functions+='|poll|popen|posix_[a-z_]+|prctl|pread|pthread_[a-z_]+|putenv|pwrite|raise|read|readdir|readlink'
functions+='|realpath|regcomp|regexec|rmdir|sched_[a-z]+|select|setenv|setlocale|setrlimit'
functions+='|sig(action|addset|emptyset|fillset|procmask)|sleep|socket|stat|stpcpy|strcasecmp|strncasecmp'
functions+='|strndup|strnlen|strsep|strsignal|strtok_r|symlink|sysconf|syscall|umask|uname|unlink|unsetenv'
functions+='|uselocale|usleep|waitpid|write|_exit'
none 'a function of the operating system outside src/core/platform/posix_*.c' < <(
  grep -nE "(^|[^A-Za-z0-9_.>\"'])($functions) ?\(" "${files[@]}" | grep -vE '^[^:]*:[0-9]*: *(/\*|\*|//)')
none 'a name of the operating system outside src/core/platform/posix_*.c' < <(
  grep -nwE 'environ|ssize_t|off_t|pid_t|__(linux|unix|APPLE)__|_(GNU|DEFAULT)_SOURCE|_(POSIX|XOPEN)_[A-Z_]*' \
    "${files[@]}")
none 'a path of the operating system outside src/core/platform/posix_*.c' < <(
  grep -nE '"/(dev|etc|proc|sys|tmp|usr)\b' "${files[@]}")

# ---- what the library does not do --------------------------------------------------------------------
# It does not print, abort or exit; posix_process.c ends the self-contained program before main, where OpenBLAS would have
# too little memory.
mapfile -t library < <(find src -name '*.[ch]' ! -name posix_process.c | sort)
none 'the library prints, aborts or exits' < <(
  ends='abort|exit|_exit|_Exit|quick_exit|assert|f?printf|vf?printf|puts|putchar|perror|fputs|fputc|putc'
  grep -nE "(^|[^A-Za-z0-9_.>\"])($ends) ?\(|\<(stdout|stderr)\>" "${library[@]}" |
    grep -vE '^[^:]*:[0-9]*: *(/\*|\*|//)')
# Parallel regions all have the same team (src/backend/cpu/shared/kernels.h).
none 'a parallel region that is not one of those that src/backend/cpu/shared/kernels.h names' < <(
  grep -nE '# *pragma +omp +parallel' "${library[@]}" |
    grep -vE '^src/backend/cpu/([a-z]+/)?(kernels\.h|blocks\.c|planes\.c):')

# ---- which op ------------------------------------------------------------------------------------------
# Files with the name of a family may compare its ops, others none: what an op is like is in the op's description, its
# letters in the list, or its row in a backend's table. To make an op, any file may name it. Each exception has a reason,
# and goes when its file no longer needs it:
declare -A excepted=(
  [src/backend/cpu/convolution/winograd.c]='a part of conv2d'
  [src/window/find_nonfinite.c]='says where a value is not finite: in the result of a cast alone'
  [src/run/instance.c]='what folds may have nothing to fold'
)
declare -A family=()
while read -r name op; do family[$op]=$name; done < <(
  grep -oE '(F\([a-z]+, |X\()[a-z0-9_]+' src/ops/list.h |
    awk -F'[(, ]+' '$1 == "F" { name = $3 } $1 == "X" { print name, $2 }')
((${#family[@]})) || { echo 'rules: there are no ops in src/ops/list.h'; exit 1; }
none 'a comparison with an op of another family; ask its description' < <(
  op='AC_OP_[a-z0-9_]+'
  grep -rnoE "([!=]=|case|\\[) *$op|$op *[!=]=" src --include='*.[ch]' | while IFS=: read -r file line text; do
    name=${text##*AC_OP_}
    name=${family[${name%%[^a-z0-9_]*}]-none}
    [[ ${file##*/} == "$name"* ]] && continue
    if [[ -v excepted[$file] ]]; then echo "$file" >>"$work/needed"; else echo "$file:$line: $text"; fi
  done)
none 'an exception that nothing needs' < <(
  for file in "${!excepted[@]}"; do grep -qsxF "$file" "$work/needed" || echo "$file: ${excepted[$file]}"; done)

# ---- whole numbers -------------------------------------------------------------------------------------
none 'another smaller or larger of two whole numbers than those of src/core/integers.h' < <(
  awk 'before ~ /^static (inline )?(u?int[0-9]*(_t)?|size_t|long) [a-z0-9_]+\([a-z0-9_]+ a, [a-z0-9_]+ b\) \{$/ &&
         /^  return a [<>]=? b \? (a : b|b : a);$/ { print FILENAME ":" FNR ":" before }
       { before = $0 }' "${files[@]}" | grep -v '^src/core/integers.h:')

# ---- long functions --------------------------------------------------------------------------------------
# Functions fit a screen. Kernels may be longer, as local memory is declared in the kernel itself; one of more than 80
# lines has a comment before each of its sections, three at least.
mapfile -t sources < <(find src tools cl -name '*.[ch]' -o -name '*.cl' | sort)
none 'a function of more than 80 lines, which is not a kernel in sections' < <(
  awk 'FNR == 1 { begin = 0 }
       /^[A-Za-z_].*[^;=]$/ && !begin { begin = FNR; name = $0; sections = 0 }
       /^  +\/\*/ { sections++ }
       /;$/ && FNR == begin || /^[^ ].*;$/ { begin = 0 }
       /^}/ { if (begin && FNR - begin >= 80 && (FILENAME !~ /^cl/ || sections < 3)) print FILENAME ":" begin ": " name
              begin = 0 }' "${sources[@]}")

# ---- CMake -----------------------------------------------------------------------------------------------
# One version is asked for everywhere, and docs/start/install.md says which.
version=$(sed -n 's/^cmake_minimum_required(VERSION \([0-9.]*\))$/\1/p' CMakeLists.txt)
none "another version of CMake than CMakeLists.txt asks for, which is $version" < <(
  grep -rnE --include={*.cmake,CMakeLists.txt,*.md,*.sh,*.py} --exclude-dir={build,.git} --exclude=rules.sh \
    'cmake_(minimum_required|policy)\(VERSION' . | grep -v "VERSION $version)")
none 'docs/start/install.md names another version of CMake' < <(
  grep -o 'CMake [0-9.]*[0-9]' docs/start/install.md | grep -vx "CMake $version")

((failed)) || echo "${#files[@]} files of the library follow the rules"
exit $failed
