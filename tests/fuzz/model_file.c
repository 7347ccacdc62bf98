/* Safetensors: the input is the file. */
#include "fuzz.h"

#include <accrue/model_file.h>
#include <stdlib.h>
#include <string.h>

static void read_tensor(ac_model_file *file, int index) {
  const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
  FUZZ_CHECK(tensor->rank >= 0 && tensor->rank <= 8);
  int64_t elements = 1;
  for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
  float *data = malloc((size_t)elements * sizeof *data + 1);
  bool floats = tensor->dtype != AC_I32 && tensor->dtype != AC_U8;
  ac_status status = ac_model_file_read(file, index, 0, elements, data);
  FUZZ_CHECK(status == (floats ? AC_OK : AC_ERROR_ARGUMENT));
  FUZZ_CHECK(ac_model_file_read(file, index, 1, elements, data) != AC_OK);
  free(data);
  FUZZ_CHECK(ac_model_file_find(file, tensor->name) == index);
}

static void run(const uint8_t *data, size_t bytes) {
  ac_model_file *file;
  if (ac_model_file_open(&file, fuzz_file(0, data, bytes)) != AC_OK) {
    FUZZ_CHECK(!file);
    fuzz_check_sentence();
    return;
  }
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) read_tensor(file, i);
  (void)ac_model_file_metadata(file, "format");
  ac_model_file_close(file);
}

static void take_file(fuzz_take take, const char *header, size_t data_bytes) {
  uint8_t file[1024] = {0};
  size_t length = strlen(header);
  file[0] = (uint8_t)length, file[1] = (uint8_t)(length >> 8);
  memcpy(file + 8, header, length);
  for (size_t i = 0; i < data_bytes; i++) file[8 + length + i] = (uint8_t)(37 * i);
  take(file, 8 + length + data_bytes);
}

static void seeds(fuzz_take take) {
  take_file(take, "{}", 0);
  take_file(take,
            "{\"__metadata__\":{\"format\":\"pt\",\"accrue.model\":\"mlp\"},"
            "\"wte\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]},"
            "\"half\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[24,32]},"
            "\"ids\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[32,40]},"
            "\"bf\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[40,48]}}   ",
            48);
  take_file(take,
            "{\"double\":{\"data_offsets\":[0,8],\"shape\":[],\"dtype\":\"F64\"},"
            "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[8,8]},"
            "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[8,10],\"x\":[]},"
            "\"u\\u00e4\":{\"dtype\":\"U8\",\"shape\":[1,1,1],\"data_offsets\":[10,11]}}",
            11);
}

const fuzz_format fuzz_model_file = {"model_file", run, seeds};
