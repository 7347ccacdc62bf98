# Sourced by the scripts of this folder: installs the Debian packages they need.

# install_packages NAME...: installs those that are missing and says which. With ACCRUE_NO_INSTALL=1, or without
# apt-get, it only names them; the build then shows whether it needs them.
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

# What the library and the program need to be built.
build_packages=(gcc libc6-dev make cmake pkg-config libopenblas-openmp-dev libjansson-dev libxxhash-dev
  libpcre2-dev libutf8proc-dev zlib1g-dev libjpeg62-turbo-dev libpng-dev libwebp-dev ocl-icd-opencl-dev opencl-c-headers libclblast-dev libprotobuf-c-dev protobuf-c-compiler)

# What self-contained programs also need: libstdc++.a, for CLBlast.
static_packages=(g++)

# What the tests also need: a mock framework, an OpenCL implementation on the CPU, a
# checker of kernels, both libraries of MPI, a program that draws plans, one that formats manual pages, zsh, a fuzzer, a program that reads the
# comments of the public headers, one that compares binary interfaces, and Python, also for tests/docs.
test_packages=(libcmocka-dev pocl-opencl-icd oclgrind clang-format gnuplot-nox groff-base zsh clang libclang-rt-14-dev
  doxygen python3 abigail-tools openmpi-bin libopenmpi-dev mpich libmpich-dev
  "${static_packages[@]}")

# What tools/kernel-check.sh compiles for GPUs with: about 220 MB. NVIDIA's ptxas, of the CUDA toolkit, is not in Debian's free
# archive; without it that part ends at PTX.
gpu_packages=(clang-15 libclc-15 rocm-device-libs intel-opencl-icd)

# What tools/aarch64.sh needs: a compiler for 64-bit ARM, and an emulator.
cross_packages=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)

# unpack_packages FOLDER NAME...: packages of Debian, unpacked there and not installed: apt uses lists of its own, so that
# the machine's stay as they are. `apt_options` has further options for apt. Does nothing if the packages
# are there already. Fails if ACCRUE_NO_INSTALL=1 forbids it.
unpack_packages() {
  local folder=$1 package
  shift
  [[ -f $folder/complete && $(<"$folder/complete") == "$*" ]] && return
  [[ ${ACCRUE_NO_INSTALL:-} == 1 ]] && return 1
  command -v apt-get >/dev/null || return 1

  echo "Unpacking $* in $folder"
  rm -rf "$folder"
  mkdir -p "$folder"/apt/{lists,cache/archives}/partial "$folder/packages"
  local apt=(apt-get -qq "${apt_options[@]}" -o Dir::State::status=/dev/null -o Dir::State::Lists="$folder/apt/lists"
    -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update || return
  (cd "$folder/packages" && "${apt[@]}" download "$@") || return
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder" || return; done
  if [[ -d $folder/lib ]]; then cp -a "$folder/lib/." "$folder/usr/lib/"; fi # one folder in Debian
  rm -rf "${folder:?}"/{apt,packages,lib}
  echo "$*" >"$folder/complete"
}

# unpack_arm64_packages FOLDER: the packages of Debian's arm64 that the build and the tests need.
unpack_arm64_packages() {
  local folder=$1 link apt_options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64)
  unpack_packages "$folder" libopenblas0-openmp libopenblas-openmp-dev libgfortran5 libjansson4 libjansson-dev libxxhash-dev \
    libpcre2-8-0 libpcre2-dev libutf8proc2 libutf8proc-dev zlib1g zlib1g-dev libjpeg62-turbo libjpeg62-turbo-dev \
    libpng16-16 libpng-dev libwebp7 libwebp-dev libcmocka0 libcmocka-dev || return
  # Absolute links would lead out of the folder.
  while read -r link; do
    ln -sf "$(basename "$(readlink "$link")")" "$link"
  done < <(find "$folder/usr/lib/aarch64-linux-gnu" -maxdepth 1 -lname '/lib/*')
}
