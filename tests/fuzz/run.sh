#!/usr/bin/env bash
# tests/fuzz/run.sh SOURCE FOLDER [SECONDS]: builds the parsers with clang's libFuzzer and the address and
# undefined-behaviour sanitizers in FOLDER, and feeds each format to it for that long (12). Fails on any report, and
# then leaves the input in FOLDER. Where clang or its libFuzzer is missing it exits with 77, unless
# ACCRUE_TEST_FUZZ=1 says that they were installed.
set -euo pipefail
source=$1 folder=$2 seconds=${3:-12}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$source"

flags=(-DAC_HAVE_JPEG -DAC_HAVE_PNG -DAC_HAVE_WEBP -g -O1 -std=c17 -D_POSIX_C_SOURCE=200809L -D_FILE_OFFSET_BITS=64 -fno-omit-frame-pointer
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined)
echo '#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes) { return data && bytes ? 0 : 0; }' >"$folder/probe.c"
compiler=
for name in clang clang-14; do
  if command -v $name >/dev/null && $name "${flags[@]}" "$folder/probe.c" -o "$folder/probe" 2>"$folder/probe.log"; then
    compiler=$name
    break
  fi
done
if [[ ! $compiler ]]; then
  echo "skipped: no clang that links libFuzzer (Debian: clang, libclang-rt-14-dev)"
  if [[ ${ACCRUE_TEST_FUZZ:-} == 1 ]]; then exit 1; fi
  exit 77
fi

cmake -DFLAGS=docs/flags -DOUTPUT="$folder/flag_records.c" -P tools/flags/generate.cmake
cmake -DCOMMANDS=docs/commands -DENVIRONMENT=docs/reference/environment.md -DOUTPUT="$folder/command_records.c" \
  -P tools/flags/commands.cmake
read -ra libraries <<<"$(pkg-config --cflags --libs jansson libpcre2-8 libutf8proc libjpeg libpng libwebp zlib)"
mapfile -t report < <(printf '%s\n' tools/report/*.c | grep -vF /report.c) # but for the command itself
"$compiler" "${flags[@]}" -Iinclude -Isrc -Itools -Itests tests/fuzz/*.c tests/support/checksums.c src/{core,core/platform,text,graph,adapter,model,ops,ops/*,optimizer,plan,schedule,record,observe,ranks,run,window,state,fit,data,image,chat,io,bench}/*.c \
  src/backend/*.c src/backend/dry/*.c \
  tools/common/{command_record,flag_record,flag_text,help,option_help,options,roff,suggest,terminal,text,file,json_file,run_id,storage}.c "$folder"/{flag,command}_records.c tools/program/{policy,batch_flag}.c "${report[@]}" "${libraries[@]}" -lpthread -lm -ldl -o "$folder/fuzz"

# In memory, as states that are saved are synced.
if [[ -d /dev/shm ]]; then export TMPDIR=/dev/shm; fi
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

for format in idx cifar pictures model_file state_file trainer_state tokens options report policy formula tokenizer tokenizer_model tokenizer_gguf language_model chat; do
  rm -rf "${folder:?}/$format"
  mkdir "$folder/$format"
  # Inputs are small, so that they are many; no seed of the fuzzer's own, so that each run looks elsewhere.
  if ! "$folder/fuzz" $format "$folder/$format" -max_total_time="$seconds" -max_len=8192 -timeout=20 \
    -artifact_prefix="$folder/$format-" -print_final_stats=1 >"$folder/$format.log" 2>&1; then
    tail -n 60 "$folder/$format.log" >&2
    exit 1
  fi
  echo "$format: $(sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$format.log") inputs, no report"
done
