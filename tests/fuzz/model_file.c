/* Model files, safetensors, GGUF and PyTorch's: the input is the file. */
#include "fuzz.h"

#include <accrue/gguf.h>
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

static size_t bytes_of_input;

/* A GGUF file's metadata; another file is refused. */
static void read_metadata(const char *path) {
  ac_gguf_metadata *metadata;
  if (ac_gguf_metadata_open(&metadata, path) != AC_OK) {
    FUZZ_CHECK(!metadata);
    fuzz_check_sentence();
    return;
  }
  for (int i = 0; i < ac_gguf_metadata_count(metadata); i++) {
    const ac_gguf_value *value = ac_gguf_metadata_at(metadata, i);
    FUZZ_CHECK(ac_gguf_metadata_find(metadata, value->key) == value);
    FUZZ_CHECK(value->count >= 0 && (value->array || value->count == 1));
    const char *const *texts = value->data;
    for (int64_t k = 0; value->type == AC_GGUF_TEXT && k < value->count; k++)
      FUZZ_CHECK(strlen(texts[k]) < bytes_of_input);
  }
  ac_gguf_metadata_close(metadata);
}

static void run(const uint8_t *data, size_t bytes) {
  ac_model_file *file;
  bytes_of_input = bytes;
  read_metadata(fuzz_file(0, data, bytes));
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

/* ---- GGUF ------------------------------------------------------------------------------------ */

typedef struct gguf {
  uint8_t bytes[2048];
  size_t count;
} gguf;

static void put(gguf *to, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; i++) to->bytes[to->count++] = (uint8_t)(value >> 8 * i);
}

static void put_text(gguf *to, const char *text) {
  put(to, 8, strlen(text));
  for (; *text; text++) put(to, 1, (uint8_t)*text);
}

static void put_pair(gguf *to, const char *key, uint32_t type, int bytes, uint64_t value) {
  put_text(to, key);
  put(to, 4, type);
  put(to, bytes, value);
}

static void put_tensor(gguf *to, const char *name, uint64_t inner, uint64_t outer, uint32_t type,
                       uint64_t offset) {
  put_text(to, name);
  put(to, 4, 2);
  put(to, 8, inner);
  put(to, 8, outer);
  put(to, 4, type);
  put(to, 8, offset);
}

/* Values of most types, an array of numbers and one of texts, and tensors of most layouts. */
static void take_gguf(fuzz_take take) {
  gguf to = {.count = 0};
  put(&to, 4, 0x46554747);
  put(&to, 4, 3);
  put(&to, 8, 7);
  put(&to, 8, 7);
  put_text(&to, "general.architecture");
  put(&to, 4, 8);
  put_text(&to, "llama");
  put_pair(&to, "general.alignment", 4, 4, 32);
  put_pair(&to, "eps", 6, 4, 0x3727c5ac);
  put_pair(&to, "wide", 12, 8, 0x3ff8000000000000);
  put_pair(&to, "flag", 7, 1, 1);
  put_pair(&to, "types", 9, 4, 5);
  put(&to, 8, 2);
  put(&to, 8, 0x300000001);
  put_pair(&to, "tokens", 9, 4, 8);
  put(&to, 8, 2);
  put_text(&to, "a");
  put_text(&to, "bc");
  put_tensor(&to, "f", 3, 2, 0, 0);
  put_tensor(&to, "h", 2, 2, 1, 32);
  put_tensor(&to, "q4", 32, 2, 2, 64);
  put_tensor(&to, "q8", 64, 1, 8, 128);
  put_tensor(&to, "q6", 256, 1, 14, 224);
  put_tensor(&to, "ids", 2, 1, 26, 448);
  put_tensor(&to, "none", 0, 5, 30, 480);
  const size_t data = (to.count + 31) / 32 * 32;
  while (to.count < data + 480) put(&to, 1, to.count < data ? 0 : 37 * to.count & 255);
  take(to.bytes, to.count);
}

/* ---- PyTorch --------------------------------------------------------------------------------- */

#define STORAGE                                      \
  "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" \
  "0X\3\0\0\0cpuK\6tQ"
#define TENSOR(sizes, strides)                                                 \
  "ctorch._utils\n_rebuild_tensor_v2\nq\1(" STORAGE "K\0" sizes strides "\x89" \
  "ccollections\nOrderedDict\n)RtR"
/* A checkpoint with a matrix, the same transposed, and what training scripts add. */
static const char described[] =
    "\x80\x02}q\0(X\5\0\0\0epochM\xe9\3X\4\0\0\0lossG?\xf0\0\0\0\0\0\0X\4\0\0\0list](N\x88K\1e"
    "X\5\0\0\0modelccollections\nOrderedDict\n)R(X\1\0\0\0w" TENSOR(
        "K\2K\3\x86", "K\3K\1\x86") "X\1\0\0\0t" TENSOR("K\3K\2\x86",
                                                        "K\1K\3\x86") "u}X\1\0\0\0mNsbu.";

static void put_bytes(gguf *to, const void *bytes, size_t count) {
  memcpy(to->bytes + to->count, bytes, count);
  to->count += count;
}

static void put_floats(gguf *to) {
  for (int i = 0; i < 24; i++) put(to, 1, i % 4 == 3 ? 0x3f : 17 * i & 255);
}

/* Files of before PyTorch 1.6. */
static void take_row(fuzz_take take) {
  static const char begin[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"
                              "\x80\x02M\xe9\x03.\x80\x02}X\x0d\0\0\0little_endian\x88s.";
  static const char keys[] = "\x80\x02]X\1\0\0\0"
                             "0a.";
  gguf to = {.count = 0};
  put_bytes(&to, begin, sizeof begin - 1);
  put_bytes(&to, described, sizeof described - 1);
  put_bytes(&to, keys, sizeof keys - 1);
  put(&to, 8, 6);
  put_floats(&to);
  take(to.bytes, to.count);
}

/* One entry of an archive, and what the directory says of it. */
static void put_entry(gguf *to, gguf *directory, const char *name, const void *bytes,
                      size_t count) {
  const size_t begin = to->count;
  gguf *const both[] = {to, directory};
  put(to, 4, 0x04034b50);
  put(directory, 4, 0x02014b50);
  put(directory, 2, 20);
  for (int i = 0; i < 2; i++) {
    put(both[i], 8, 20);
    put(both[i], 6, 0); /* date and checksum; flags, method and time are before them */
    put(both[i], 4, count);
    put(both[i], 4, count);
    put(both[i], 2, strlen(name));
    put(both[i], 2, 0);
  }
  put(directory, 8, 0);
  put(directory, 2, 0);
  put(directory, 4, begin);
  put_bytes(to, name, strlen(name));
  put_bytes(directory, name, strlen(name));
  put_bytes(to, bytes, count);
}

static void take_archive(fuzz_take take) {
  gguf to = {.count = 0}, directory = {.count = 0}, floats = {.count = 0};
  put_floats(&floats);
  put_entry(&to, &directory, "a/data.pkl", described, sizeof described - 1);
  put_entry(&to, &directory, "a/byteorder", "little", 6);
  put_entry(&to, &directory, "a/data/0", floats.bytes, floats.count);
  const size_t begin = to.count;
  put_bytes(&to, directory.bytes, directory.count);
  put(&to, 4, 0x06054b50);
  put(&to, 4, 0);
  put(&to, 2, 3);
  put(&to, 2, 3);
  put(&to, 4, directory.count);
  put(&to, 4, begin);
  put(&to, 2, 0);
  take(to.bytes, to.count);
}

static void seeds(fuzz_take take) {
  take_gguf(take);
  take_row(take);
  take_archive(take);
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
