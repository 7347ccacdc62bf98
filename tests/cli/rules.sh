#!/usr/bin/env bash
# tests/cli/rules.sh SOURCE: what docs/contribute/style.md says of the source and a search can find.
set -euo pipefail
cd "$1"
failed=0

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
libraries='accrue/[a-z_]*|CL/cl|cblas|clblast_c|jansson|omp|xxhash|zlib'
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

((failed)) || echo "${#files[@]} files of the library follow the rules"
exit $failed
