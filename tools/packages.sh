# Sourced by the scripts beside it: installs the Debian packages they need.

# install_packages NAME...: installs those that are missing and says which. With ACCRUE_NO_INSTALL=1, or where
# there is no apt-get, only names them; the build then finds out whether it can do without.
install_packages() {
  local missing=() name
  for name; do
    [[ $(dpkg-query -W -f='${db:Status-Abbrev}' "$name" 2>/dev/null) == ii* ]] || missing+=("$name")
  done
  ((${#missing[@]})) || return 0

  if [[ ${ACCRUE_NO_INSTALL:-} == 1 ]]; then
    echo "Not installed, as ACCRUE_NO_INSTALL=1 asks; missing: ${missing[*]}" >&2
    return 0
  fi
  if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here; please install what Debian calls: ${missing[*]}" >&2
    return 0
  fi
  local as_root=()
  if ((EUID)); then
    if ! command -v sudo >/dev/null; then
      echo "Neither root nor sudo; please install: ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}"
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qq install --yes --no-install-recommends "${missing[@]}" >/dev/null
}

# What the library and the program are built with and from.
build_packages=(gcc libc6-dev make cmake pkg-config libopenblas-openmp-dev libjansson-dev zlib1g-dev
  ocl-icd-opencl-dev opencl-c-headers libclblast-dev)

# What self-contained programs need besides: libstdc++.a, for CLBlast.
static_packages=(g++)

# What the tests need besides: a mock framework, an OpenCL implementation on the CPU, a
# checker of kernels, what draws plans, and a fuzzer.
test_packages=(libcmocka-dev pocl-opencl-icd oclgrind clang-format gnuplot-nox clang libclang-rt-14-dev
  "${static_packages[@]}")
