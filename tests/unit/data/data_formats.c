/* Every reader of files gets files of all formats: it reads its own and refuses the others by name.
 */
#include "support/files.h"

#include "support/formats.h"

#include <accrue/dataset.h>
#include <accrue/format.h>
#include <accrue/model_file.h>
#include <fcntl.h>
#include <zlib.h>

static int make_formats(void **state) {
  return make_test_folder(state) || !formats_write(test_folder) ? -1 : 0;
}

/* ---- readers --------------------------------------------------------------------------------- */

static ac_status read_tokens(const char *path, int reader) {
  ac_tokens *tokens;
  const ac_status status = reader == READ_AS_TEXT ? ac_tokens_from_text(&tokens, path, 0)
                                                  : ac_tokens_from_uint16(&tokens, path, 65536);
  ac_tokens_free(tokens);
  return status;
}

static ac_status read_images(const char *path, int reader) {
  const test_path images = in_folder("idx3"), labels = in_folder("idx1");
  ac_dataset *dataset = NULL;
  ac_status status = AC_OK;
  if (reader == READ_AS_IDX_IMAGES)
    status = ac_dataset_from_idx(&dataset, path, labels.text, 0, -1);
  if (reader == READ_AS_IDX_LABELS)
    status = ac_dataset_from_idx(&dataset, images.text, path, 0, -1);
  if (reader == READ_AS_CIFAR10) status = ac_dataset_from_cifar10(&dataset, path, 0, -1);
  if (reader == READ_AS_CIFAR100) status = ac_dataset_from_cifar100(&dataset, path, false, 0, -1);
  ac_dataset_free(dataset);
  return status;
}

static ac_status read_as(const char *path, int reader) {
  if (reader == READ_AS_TEXT || reader == READ_AS_TOKENS) return read_tokens(path, reader);
  if (reader != READ_AS_MODEL) return read_images(path, reader);
  ac_model_file *file;
  const ac_status status = ac_model_file_open(&file, path);
  ac_model_file_close(file);
  return status;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void check(const char *path, const format_file *form, int reader) {
  char mention[256];
  const ac_status status = read_as(path, reader);
  if (form->readers & reader) {
    if (status != AC_OK) fail_msg("%s by reader %d: %s", path, reader, ac_last_error());
    return;
  }
  const char *called = form->called;
  if (!strcmp(called, "integers") && reader != READ_AS_TOKENS) called = "a file of numbers";
  /* The labels of one may be in the range of the other's. */
  if (status == AC_ERROR_FORMAT && strstr(form->name, "cifar") &&
      (reader == READ_AS_CIFAR10 || reader == READ_AS_CIFAR100))
    called = "not a whole number of CIFAR";
  snprintf(mention, sizeof mention, "%s", called);
  if (status != AC_ERROR_FORMAT || !strstr(ac_last_error(), mention) ||
      !strstr(ac_last_error(), path))
    fail_msg("%s by reader %d: %s «%s», expected «%s»", path, reader, ac_status_name(status),
             ac_last_error(), mention);
}

static void others_are_refused_by_name(void **state) {
  (void)state;
  for (int i = 0; i < FORMAT_FILES; i++)
    for (int reader = READ_AS_TEXT; reader <= READ_AS_MODEL; reader *= 2)
      check(in_folder(format_files[i].name).text, &format_files[i], reader);
}

/* What lies in gzip data is read, or refused, as it is outside; models are never compressed. */
static void compressed_files_are_told_apart(void **state) {
  (void)state;
  for (int i = 0; i < FORMAT_FILES; i++) {
    size_t bytes;
    const test_path plain = in_folder(format_files[i].name), packed = in_folder("packed.gz");
    unsigned char *data = read_file(plain.text, &bytes);
    gzFile file = gzopen(packed.text, "wb");
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(file), Z_OK);
    free(data);
    for (int reader = READ_AS_TEXT; reader < READ_AS_MODEL; reader *= 2) {
      /* Records have no size to be told by before they are all unzipped. */
      if (strstr(format_files[i].name, "cifar") &&
          (reader == READ_AS_IDX_IMAGES || reader == READ_AS_IDX_LABELS))
        continue;
      check(packed.text, &format_files[i], reader);
    }
    assert_refused(read_as(packed.text, READ_AS_MODEL), AC_ERROR_FORMAT,
                   "is gzip data, not a safetensors, GGUF or PyTorch file");
  }
}

static void names_are_told_of_memory(void **state) {
  (void)state;
  assert_string_equal(ac_format_name("PK\3\4", 4, 0), "a zip archive, as PyTorch writes models");
  assert_string_equal(ac_format_name("%PDF-1.4", 8, 100), "a PDF document");
  assert_string_equal(ac_format_name("some words", 10, 10), "text");
  assert_null(ac_format_name("\1\2\3\4\5\6\1\2\3", 9, 9));
  assert_null(ac_format_name("", 0, 0));
}

/* ---- content --------------------------------------------------------------------------------- */

static void assert_tokens(const char *name) {
  ac_tokens *tokens;
  ac_dataset *dataset;
  static int32_t in[FORMAT_TOKENS - 1], out[FORMAT_TOKENS - 1];
  assert_ok(ac_tokens_from_uint16(&tokens, in_folder(name).text, 50257));
  assert_int_equal(ac_tokens_count(tokens), FORMAT_TOKENS);
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, FORMAT_TOKENS, FORMAT_TOKENS - 1, false));
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){in, out}));
  for (int i = 0; i + 1 < FORMAT_TOKENS; i++) assert_int_equal(in[i], format_token(i));
  ac_dataset_free(dataset);
  ac_tokens_free(tokens);
}

/* llm.c's headers are left out, and its 32-bit tokens come to the same. */
static void tokens_of_llmc_are_read(void **state) {
  (void)state;
  assert_tokens("tokens");
  assert_tokens("llmc16");
  assert_tokens("llmc32");
  ac_tokens *tokens;
  size_t bytes;
  unsigned char *data = read_file(in_folder("llmc16").text, &bytes);
  write_file(in_folder("short").text, data, bytes - 2);
  assert_refused(ac_tokens_from_uint16(&tokens, in_folder("short").text, 65536), AC_ERROR_FORMAT,
                 "announces 4096 tokens, but 8190 bytes follow it");
  data[4] = 2; /* the version */
  write_file(in_folder("short").text, data, bytes);
  assert_refused(ac_tokens_from_uint16(&tokens, in_folder("short").text, 65536), AC_ERROR_FORMAT,
                 "of an unknown version");
  free(data);
}

/* A few tokens, or those made by a rule, may have zeros where larger integers do. */
static void regular_tokens_are_tokens(void **state) {
  (void)state;
  ac_tokens *tokens;
  unsigned char data[4000] = {0};
  for (int i = 0; i < 1000; i++) data[4 * i] = (unsigned char)(i % 10 + 1); /* 1 0 2 0 3 0 ... */
  write_file(in_folder("regular").text, data, sizeof data);
  assert_ok(ac_tokens_from_uint16(&tokens, in_folder("regular").text, 11));
  ac_tokens_free(tokens);
  memset(data, 0, sizeof data);
  write_file(in_folder("regular").text, data, sizeof data);
  assert_ok(ac_tokens_from_uint16(&tokens, in_folder("regular").text, 11));
  ac_tokens_free(tokens);
}

/* A stray control character does not make a picture of a text, nor does the name of a format. */
static void text_is_text(void **state) {
  (void)state;
  static const char *const texts[] = {"GIF89a is a format, and GGUF is another",
                                      "PK",
                                      "BM 8",
                                      "\xef\xbb\xbf"
                                      "UTF-8 with a mark",
                                      "caf\xe9 in Latin-1",
                                      "a page\f and a colour \x1b[1m",
                                      "%PDF- begins a PDF"};
  ac_tokens *tokens;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    write_file(in_folder("words").text, texts[i], strlen(texts[i]));
    assert_ok(ac_tokens_from_text(&tokens, in_folder("words").text, 0));
    assert_int_equal(ac_tokens_count(tokens), strlen(texts[i]));
    ac_tokens_free(tokens);
  }
  assert_refused(ac_tokens_from_text(&tokens, in_folder("png").text, 16), AC_ERROR_FORMAT,
                 "png is a PNG");
  assert_ok(ac_tokens_from_bytes(&tokens, in_folder("png").text, 0, NULL, NULL));
  ac_tokens_free(tokens);
}

/* ---- not a file ------------------------------------------------------------------------------ */

/* A pipe can be read only once: all of it is read at once, also CIFAR-100, although the reader
 * first checks whether it is CIFAR-10. */
static void pipes_are_read_once(void **state) {
  (void)state;
  const test_path pipe = in_folder("pipe");
  assert_int_equal(mkfifo(pipe.text, 0600), 0);
  static const char *const names[] = {"text", "cifar100", "tokens"};
  for (int i = 0; i < 3; i++) {
    char command[1200];
    snprintf(command, sizeof command, "cat '%s' > '%s' &", in_folder(names[i]).text, pipe.text);
    assert_int_equal(system(command), 0);
    ac_dataset *dataset;
    if (i != 1) assert_ok(read_tokens(pipe.text, i ? READ_AS_TOKENS : READ_AS_TEXT));
    else assert_ok(ac_dataset_from_cifar(&dataset, pipe.text, 0, -1));
    if (i != 1) continue;
    assert_int_equal(ac_dataset_count(dataset), 8);
    assert_int_equal(ac_dataset_classes(dataset), 100);
    ac_dataset_free(dataset);
  }
  /* Nobody writes: a model is refused at once, or this test is ended. */
  alarm(20);
  ac_model_file *file;
  assert_refused(ac_model_file_open(&file, pipe.text), AC_ERROR_IO, "it is a pipe, not a file");
  assert_refused(ac_model_file_open(&file, "/dev/null"), AC_ERROR_IO, "it is a device, not a file");
  assert_refused(ac_model_file_open(&file, test_folder), AC_ERROR_IO,
                 "is a folder without model.safetensors or model.safetensors.index.json");
  alarm(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(others_are_refused_by_name),
      cmocka_unit_test(compressed_files_are_told_apart),
      cmocka_unit_test(names_are_told_of_memory),
      cmocka_unit_test(tokens_of_llmc_are_read),
      cmocka_unit_test(regular_tokens_are_tokens),
      cmocka_unit_test(text_is_text),
      cmocka_unit_test(pipes_are_read_once),
  };
  return cmocka_run_group_tests(tests, make_formats, remove_test_folder);
}
