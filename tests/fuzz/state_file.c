/* Safetensors with checksums: bit 0 of byte 0 says whether the checksums are put right, the rest is
 * the file. */
#include "fuzz.h"

#include "io/safetensors.h"
#include "support/checksums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 8192 };

static void read_tensor(ac_model_file *file, int index) {
  const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
  int64_t elements = 1;
  for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
  char *data = malloc((size_t)elements * sizeof(float) + 1);
  FUZZ_CHECK(ac_model_file_read_stored(file, index, 0, elements, data) == AC_OK);
  FUZZ_CHECK(ac_model_file_read_stored(file, index, 1, elements, data) != AC_OK);
  free(data);
}

static void run(const uint8_t *data, size_t bytes) {
  static uint8_t contents[LONGEST];
  ac_model_file *file;
  if (bytes < 1 || bytes - 1 > LONGEST) return;
  memcpy(contents, data + 1, bytes - 1);
  if (data[0] & 1) put_checksums_right(contents, bytes - 1);
  if (ac_model_file_open(&file, fuzz_file(0, contents, bytes - 1)) != AC_OK) return;
  if (ac_model_file_verify(file) != AC_OK) fuzz_check_sentence();
  else
    for (int i = 0; i < ac_model_file_tensor_count(file); i++) read_tensor(file, i);
  ac_model_file_close(file);
}

static ac_status produce(void *user, int index, int64_t first, int64_t count, void *to) {
  (void)user, (void)first;
  memset(to, 7 * index, (size_t)count * 2);
  return AC_OK;
}

static void seeds(fuzz_take take) {
  static const ac_model_tensor tensors[] = {
      {"half", AC_F16, 2, {3, 2}}, {"bf", AC_BF16, 1, {4}}, {"none", AC_F16, 1, {0}}};
  static const ac_metadata metadata = {"accrue.state.version", "1"};
  char path[] = "/tmp/accrue-fuzz-XXXXXX";
  uint8_t input[2048] = {0};
  const int made = mkstemp(path);
  FUZZ_CHECK(made >= 0);
  for (int count = 0; count <= 3; count++) {
    FUZZ_CHECK(ac_model_file_write_by(&(ac_write_rules){.checksums = true}, path, tensors, count,
                                      &metadata, 1, produce, NULL) == AC_OK);
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file);
    const size_t bytes = fread(input + 1, 1, sizeof input - 1, file);
    fclose(file);
    for (input[0] = 0; input[0] < 2; input[0]++) take(input, bytes + 1);
  }
  close(made);
  remove(path);
}

const fuzz_format fuzz_state_file = {"state_file", run, seeds};
