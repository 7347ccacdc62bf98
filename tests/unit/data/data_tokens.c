/* Text and token files, and the spans cut from them. */
#include "support/files.h"

#include <accrue/dataset.h>
#include <fcntl.h>

#ifndef AC_TEST_DATA
#define AC_TEST_DATA ""
#endif

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads [0, count - 1) of a sequence back through one span. */
static void assert_text(const ac_tokens *tokens, const char *expected) {
  int64_t count = (int64_t)strlen(expected);
  int32_t in[256], out[256];
  ac_dataset *dataset;
  assert_int_equal(ac_tokens_count(tokens), count);
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, count, count - 1, false));
  assert_int_equal(ac_dataset_classes(dataset), 256);
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){in, out}));
  for (int64_t i = 0; i + 1 < count; i++) {
    assert_int_equal(in[i], (unsigned char)expected[i]);
    assert_int_equal(out[i], (unsigned char)expected[i + 1]);
  }
  ac_dataset_free(dataset);
}

static void bytes_of_a_file_are_tokens(void **state) {
  (void)state;
  test_path path = in_folder("text");
  write_file(path.text, "hello \xff\x80 world", 14);
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_text(&tokens, path.text, 0));
  assert_text(tokens, "hello \xff\x80 world");
  ac_tokens_free(tokens);
  assert_ok(ac_tokens_from_text(&tokens, path.text, 5));
  assert_text(tokens, "hello");
  ac_tokens_free(tokens);
  assert_ok(ac_tokens_from_text(&tokens, path.text, 1000));
  assert_int_equal(ac_tokens_count(tokens), 14);
  ac_tokens_free(tokens);
  ac_tokens_free(NULL);
}

static bool takes_no_b(void *user, const char *path, bool is_folder) {
  int *asked = user;
  asked[is_folder]++;
  const char *name = strrchr(path, '/') + 1;
  return strcmp(name, is_folder ? "b" : "c") != 0;
}

static void parts_of_a_folder_may_be_left_out(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("part").text, 0777), 0);
  assert_int_equal(mkdir(in_folder("part/b").text, 0777), 0);
  assert_int_equal(mkdir(in_folder("part/d").text, 0777), 0);
  write_file(in_folder("part/a").text, "1", 1);
  write_file(in_folder("part/b/z").text, "2", 1);
  write_file(in_folder("part/c").text, "3", 1);
  write_file(in_folder("part/d/y").text, "4", 1);
  ac_tokens *tokens;
  int asked[2] = {0};
  assert_ok(ac_tokens_from_text_where(&tokens, in_folder("part").text, 0, takes_no_b, asked));
  assert_text(tokens, "14");
  assert_int_equal(asked[0], 3); /* not about what is in a folder that is left out */
  assert_int_equal(asked[1], 2);
  ac_tokens_free(tokens);
  /* The path itself is what was asked for. */
  assert_ok(ac_tokens_from_text_where(&tokens, in_folder("part/c").text, 0, takes_no_b, asked));
  assert_int_equal(ac_tokens_count(tokens), 1);
  ac_tokens_free(tokens);
}

static void a_folder_is_read_in_the_order_of_its_paths(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("tree").text, 0777), 0);
  assert_int_equal(mkdir(in_folder("tree/b").text, 0777), 0);
  assert_int_equal(mkdir(in_folder("tree/none").text, 0777), 0);
  write_file(in_folder("tree/c").text, "33", 2);
  write_file(in_folder("tree/b/z").text, "2222", 4);
  write_file(in_folder("tree/b/empty").text, "", 0);
  write_file(in_folder("tree/a").text, "1", 1);
  write_file(in_folder("tree/B").text, "00", 2);
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_text(&tokens, in_folder("tree").text, 0));
  assert_text(tokens, "001222233");
  ac_tokens_free(tokens);
  assert_ok(ac_tokens_from_text(&tokens, in_folder("tree").text, 6));
  assert_text(tokens, "001222");
  ac_tokens_free(tokens);
}

static void a_large_file_is_read_whole(void **state) {
  (void)state;
  enum { BYTES = 300000 };
  unsigned char *data = malloc(BYTES);
  for (int i = 0; i < BYTES; i++) data[i] = (unsigned char)(i * 7 >> 3);
  write_file(in_folder("large").text, data, BYTES);
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_bytes(&tokens, in_folder("large").text, 0, NULL, NULL));
  assert_int_equal(ac_tokens_count(tokens), BYTES);
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, BYTES, 1000, false));
  int32_t in[1000], out[1000];
  for (int64_t w = 0; w < ac_dataset_count(dataset); w++) {
    assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = w}, (void *const[]){in, out}));
    for (int i = 0; i < 1000; i++) assert_int_equal(in[i], data[w * 1000 + i]);
  }
  ac_dataset_free(dataset);
  ac_tokens_free(tokens);
  free(data);
}

static void text_that_cannot_be_read_is_named(void **state) {
  (void)state;
  ac_tokens *tokens;
  assert_refused(ac_tokens_from_text(&tokens, in_folder("missing").text, 0), AC_ERROR_IO,
                 "missing");
  assert_null(tokens);
  write_file(in_folder("empty").text, "", 0);
  assert_refused(ac_tokens_from_text(&tokens, in_folder("empty").text, 0), AC_ERROR_FORMAT,
                 "is empty");
  assert_int_equal(mkdir(in_folder("hollow").text, 0777), 0);
  assert_refused(ac_tokens_from_text(&tokens, in_folder("hollow").text, 0), AC_ERROR_FORMAT,
                 "hollow holds no files");
  write_file(in_folder("hollow/empty").text, "", 0);
  assert_refused(ac_tokens_from_text(&tokens, in_folder("hollow").text, 0), AC_ERROR_FORMAT,
                 "hollow is empty");
  if (geteuid() == 0) {
    print_message("runs as root, which may read everything: permissions are not tested\n");
    return;
  }
  write_file(in_folder("hollow/secret").text, "x", 1);
  assert_int_equal(chmod(in_folder("hollow/secret").text, 0), 0);
  assert_refused(ac_tokens_from_text(&tokens, in_folder("hollow").text, 0), AC_ERROR_IO, "secret");
}

/* Parts of a folder that cannot be read are not left out. */
static void folders_are_read_whole(void **state) {
  (void)state;
  ac_tokens *tokens;
  test_path deep = in_folder("deep");
  assert_int_equal(mkdir(deep.text, 0777), 0);
  write_file(in_folder("deep/file").text, "x", 1);
  for (int i = 0; i < 64; i++) {
    strcat(deep.text, "/d");
    assert_int_equal(mkdir(deep.text, 0777), 0);
  }
  assert_ok(ac_tokens_from_text(&tokens, in_folder("deep").text, 0));
  ac_tokens_free(tokens);
  strcat(deep.text, "/d");
  assert_int_equal(mkdir(deep.text, 0777), 0);
  assert_refused(ac_tokens_from_text(&tokens, in_folder("deep").text, 0), AC_ERROR_IO,
                 "d/d: it is more than 64 folders deep");
}

/* 17 names of 250 bytes are more than a path may have. */
static void long_paths_are_named(void **state) {
  (void)state;
  enum { NAMES = 17 };
  ac_tokens *tokens;
  char name[251];
  memset(name, 'n', 250);
  name[250] = 0;
  assert_int_equal(mkdir(in_folder("long").text, 0777), 0);
  write_file(in_folder("long/a").text, "x", 1);
  int at[NAMES + 1] = {open(in_folder("long").text, O_RDONLY)};
  for (int i = 0; i < NAMES; i++) {
    assert_int_equal(mkdirat(at[i], name, 0777), 0);
    at[i + 1] = openat(at[i], name, O_RDONLY);
  }
  assert_refused(ac_tokens_from_text(&tokens, in_folder("long").text, 0), AC_ERROR_IO,
                 "cannot read a file in folder ");
  for (int i = NAMES; i > 0; i--) {
    close(at[i]);
    assert_int_equal(unlinkat(at[i - 1], name, AT_REMOVEDIR), 0);
  }
  close(at[0]);
}

/* A folder that can be listed but not searched. As root may do both, root tries it as nobody. */
static void unsearchable_folders_are_named(void **state) {
  (void)state;
  ac_tokens *tokens;
  const bool root = geteuid() == 0;
  assert_int_equal(chmod(test_folder, 0755), 0);
  assert_int_equal(mkdir(in_folder("closed").text, 0755), 0);
  assert_int_equal(mkdir(in_folder("closed/sub").text, 0755), 0);
  write_file(in_folder("closed/a").text, "x", 1);
  write_file(in_folder("closed/sub/b").text, "x", 1);
  assert_int_equal(chmod(in_folder("closed/a").text, 0644), 0);
  assert_int_equal(symlink("nothing", in_folder("closed/link").text), 0);
  assert_ok(ac_tokens_from_text(&tokens, in_folder("closed").text, 0));
  ac_tokens_free(tokens);
  assert_int_equal(chmod(in_folder("closed/sub").text, 0644), 0);
  if (root) assert_int_equal(seteuid(65534), 0);
  const ac_status status = ac_tokens_from_text(&tokens, in_folder("closed").text, 0);
  if (root) assert_int_equal(seteuid(0), 0);
  assert_int_equal(chmod(in_folder("closed/sub").text, 0755), 0);
  assert_refused(status, AC_ERROR_IO, "closed/sub/b: Permission denied");
}

static void uint16_files_are_little_endian(void **state) {
  (void)state;
  test_path path = in_folder("tokens");
  static const unsigned char data[] = {1, 0, 0, 1, 0x50, 0xc3, 0xff, 0xff, 2, 0};
  write_file(path.text, data, sizeof data);
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_uint16(&tokens, path.text, 65536));
  assert_int_equal(ac_tokens_count(tokens), 5);
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, 5, 4, true));
  assert_int_equal(ac_dataset_classes(dataset), 65536);
  int32_t in[4], out[4];
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){in, out}));
  assert_memory_equal(in, ((int32_t[]){1, 256, 50000, 65535}), sizeof in);
  assert_memory_equal(out, ((int32_t[]){256, 50000, 65535, 2}), sizeof out);
  ac_dataset_free(dataset);
  ac_tokens_free(tokens);

  assert_refused(ac_tokens_from_uint16(&tokens, path.text, 50000), AC_ERROR_FORMAT,
                 "token 50000 at position 2 is outside the vocabulary of 50000");
  assert_null(tokens);
  assert_refused(ac_tokens_from_uint16(&tokens, path.text, 0), AC_ERROR_ARGUMENT,
                 "vocabulary of 0");
  assert_refused(ac_tokens_from_uint16(&tokens, path.text, 65537), AC_ERROR_ARGUMENT, "65537");
  write_file(path.text, data, 3);
  assert_refused(ac_tokens_from_uint16(&tokens, path.text, 65536), AC_ERROR_FORMAT, "3 bytes");
  write_file(path.text, data, 0);
  assert_refused(ac_tokens_from_uint16(&tokens, path.text, 65536), AC_ERROR_FORMAT, "is empty");
  assert_refused(ac_tokens_from_uint16(&tokens, in_folder("none").text, 10), AC_ERROR_IO, "none");
  assert_refused(ac_tokens_from_uint16(&tokens, test_folder, 10), AC_ERROR_IO, test_folder);
}

/* Whether they take four bytes in memory, or fit into two. */
static void uint32_files_are_little_endian(void **state) {
  (void)state;
  test_path path = in_folder("wide");
  static const unsigned char data[] = {1, 0, 0, 0, 0x50, 0xc3, 1, 0, 0xff, 0xff, 0, 0, 2, 0, 0, 0};
  static const int32_t expected[] = {1, 115536, 65535, 2};
  ac_tokens *tokens;
  ac_dataset *dataset;
  int32_t in[3], out[3];
  write_file(path.text, data, sizeof data);
  assert_ok(ac_tokens_from_uint32(&tokens, path.text, 115537));
  assert_int_equal(ac_tokens_count(tokens), 4);
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, 4, 3, false));
  assert_int_equal(ac_dataset_classes(dataset), 115537);
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){in, out}));
  assert_memory_equal(in, expected, sizeof in);
  assert_memory_equal(out, expected + 1, sizeof out);
  ac_dataset_free(dataset);
  ac_tokens_free(tokens);
  assert_refused(ac_tokens_from_uint32(&tokens, path.text, 115536), AC_ERROR_FORMAT,
                 "token 115536 at position 1 is outside the vocabulary of 115536");

  write_file(path.text, data + 8, 8);
  assert_ok(ac_tokens_from_uint32(&tokens, path.text, 65536));
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, 2, 1, false));
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){in, out}));
  assert_int_equal(in[0], 65535);
  assert_int_equal(out[0], 2);
  ac_dataset_free(dataset);
  ac_tokens_free(tokens);

  write_file(path.text, data, 6);
  assert_refused(ac_tokens_from_uint32(&tokens, path.text, 9), AC_ERROR_FORMAT,
                 "6 bytes, which are not a whole number of uint32 tokens");
  assert_refused(ac_tokens_from_uint32(&tokens, path.text, 0), AC_ERROR_ARGUMENT,
                 "vocabulary of 0");
  assert_refused(ac_tokens_from_uint32(&tokens, path.text, INT64_C(1) << 31), AC_ERROR_ARGUMENT,
                 "2147483648");
}

/* ---- spans ----------------------------------------------------------------------------------- */

enum { SEQUENCE = 5000 };

static ac_tokens *count_up(void) {
  static unsigned char data[2 * SEQUENCE];
  for (int i = 0; i < SEQUENCE; i++) {
    data[2 * i] = (unsigned char)i;
    data[2 * i + 1] = (unsigned char)(i >> 8);
  }
  write_file(in_folder("numbers").text, data, sizeof data);
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_uint16(&tokens, in_folder("numbers").text, SEQUENCE));
  return tokens;
}

/* Reads an epoch of spans over tokens that are their own positions: how often each came up, and
 * where the first span began. */
static int64_t read_epoch(ac_dataset *dataset, uint64_t seed, int64_t epoch, int *seen) {
  static int32_t in[SEQUENCE], out[SEQUENCE];
  int64_t context = ac_dataset_field(dataset, 0)->elements, first = SEQUENCE;
  memset(seen, 0, SEQUENCE * sizeof *seen);
  for (int64_t w = 0; w < ac_dataset_count(dataset); w++) {
    ac_sample_key key = {.index = w, .epoch = epoch, .seed = seed};
    assert_ok(ac_dataset_read(dataset, &key, (void *const[]){in, out}));
    for (int64_t i = 0; i < context; i++) {
      assert_int_equal(in[i], in[0] + i);
      assert_int_equal(out[i], in[i] + 1);
      seen[in[i]]++;
    }
    if (in[0] < first) first = in[0];
  }
  return first;
}

static void spans_cover_every_token_once(void **state) {
  (void)state;
  static const int64_t ranges[][3] = {/* begin, end, context */
                                      {0, SEQUENCE, 64}, {0, 4500, 64}, {4500, SEQUENCE, 64},
                                      {10, 139, 64},     {0, 2, 1},     {17, 1000, 1},
                                      {3, 2003, 999}};
  static int seen[SEQUENCE];
  ac_tokens *tokens = count_up();
  for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
    int64_t begin = ranges[r][0], end = ranges[r][1], context = ranges[r][2];
    ac_dataset *dataset;
    assert_ok(ac_dataset_from_tokens(&dataset, tokens, begin, end, context, false));
    int64_t count = ac_dataset_count(dataset);
    assert_int_equal(count, (end - begin - 1) / context);
    assert_int_equal(read_epoch(dataset, 5, 7, seen), begin);
    for (int64_t i = 0; i < SEQUENCE; i++)
      assert_int_equal(seen[i], i >= begin && i < begin + count * context);
    ac_dataset_free(dataset);
  }
  ac_tokens_free(tokens);
}

static void jitter_shifts_the_spans(void **state) {
  (void)state;
  enum { CONTEXT = 16, EPOCHS = 400 };
  static int seen[SEQUENCE];
  ac_tokens *tokens = count_up();
  /* Too short for a span at every offset, just long enough, and longer. */
  for (int64_t length = CONTEXT + 1; length <= 5 * CONTEXT; length++) {
    int64_t begin = 100, end = begin + length;
    int64_t offsets = length < 2 * CONTEXT ? length - CONTEXT : CONTEXT;
    ac_dataset *dataset;
    assert_ok(ac_dataset_from_tokens(&dataset, tokens, begin, end, CONTEXT, true));
    int64_t count = ac_dataset_count(dataset);
    assert_int_equal(count, length < 2 * CONTEXT ? 1 : length / CONTEXT - 1);
    bool came[CONTEXT] = {false};
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
      int64_t first = read_epoch(dataset, 11, epoch, seen);
      assert_in_range(first, begin, begin + offsets - 1);
      assert_true(first + count * CONTEXT < end);
      came[first - begin] = true;
      for (int64_t i = 0; i < SEQUENCE; i++)
        assert_int_equal(seen[i], i >= first && i < first + count * CONTEXT);
    }
    for (int64_t o = 0; o < offsets; o++) assert_true(came[o]);
    ac_dataset_free(dataset);
  }
  ac_tokens_free(tokens);
}

static void jitter_depends_on_seed_and_epoch_alone(void **state) {
  (void)state;
  static int seen[SEQUENCE];
  ac_tokens *tokens = count_up();
  ac_dataset *dataset, *other;
  assert_ok(ac_dataset_from_tokens(&dataset, tokens, 0, SEQUENCE, 500, true));
  assert_ok(ac_dataset_from_tokens(&other, tokens, 0, SEQUENCE - 700, 500, true));
  int equal_epochs = 0, equal_seeds = 0;
  for (int64_t e = 0; e < 50; e++) {
    int64_t first = read_epoch(dataset, 1, e, seen);
    assert_int_equal(read_epoch(dataset, 1, e, seen), first);
    assert_int_equal(read_epoch(other, 1, e, seen), first);
    equal_epochs += read_epoch(dataset, 1, e + 1, seen) == first;
    equal_seeds += read_epoch(dataset, 2, e, seen) == first;
  }
  assert_in_range(equal_epochs, 0, 3);
  assert_in_range(equal_seeds, 0, 3);
  ac_dataset_free(other);
  ac_dataset_free(dataset);
  ac_tokens_free(tokens);
}

static void ranges_that_hold_no_span_are_refused(void **state) {
  (void)state;
  ac_tokens *tokens = count_up();
  ac_dataset *dataset;
  for (int jitter = 0; jitter < 2; jitter++) {
    assert_refused(ac_dataset_from_tokens(&dataset, tokens, 0, 64, 64, jitter), AC_ERROR_ARGUMENT,
                   "64 tokens are too few for a context of 64");
    assert_refused(ac_dataset_from_tokens(&dataset, tokens, 5, 5, 1, jitter), AC_ERROR_ARGUMENT,
                   "0 tokens");
    assert_refused(ac_dataset_from_tokens(&dataset, tokens, 0, SEQUENCE, INT64_MAX, jitter),
                   AC_ERROR_ARGUMENT, "too few");
  }
  assert_refused(ac_dataset_from_tokens(&dataset, tokens, 0, SEQUENCE + 1, 8, false),
                 AC_ERROR_ARGUMENT, "[0, 5001)");
  assert_refused(ac_dataset_from_tokens(&dataset, tokens, -1, 50, 8, false), AC_ERROR_ARGUMENT,
                 "[-1, 50)");
  assert_refused(ac_dataset_from_tokens(&dataset, tokens, 60, 50, 8, false), AC_ERROR_ARGUMENT,
                 "[60, 50)");
  assert_refused(ac_dataset_from_tokens(&dataset, tokens, 0, 50, 0, false), AC_ERROR_ARGUMENT,
                 "context of 0");
  assert_null(dataset);
  ac_tokens_free(tokens);
}

/* Marks the tokens that are the inputs or targets of a dataset's spans; each token is its place.
 * Spans begin anywhere in their range, so several epochs are read. */
static void mark(ac_dataset *dataset, int64_t context, bool *seen) {
  int32_t in[16], out[16];
  for (int64_t epoch = 0; epoch < 20; epoch++)
    for (int64_t i = 0; i < ac_dataset_count(dataset); i++) {
      const ac_sample_key key = {.index = i, .epoch = epoch, .seed = 5};
      assert_ok(ac_dataset_read(dataset, &key, (void *const[]){in, out}));
      for (int64_t k = 0; k < context; k++) {
        assert_int_equal(out[k], in[k] + 1);
        seen[in[k]] = seen[out[k]] = true;
      }
    }
}

/* A fold is a range; nothing of it is seen in training, and all else is but what does not fill a
 * span at the ends. */
static void folds_of_text_do_not_leak(void **state) {
  (void)state;
  enum { COUNT = 203, CONTEXT = 5 };
  unsigned char bytes[2 * COUNT];
  for (int i = 0; i < COUNT; i++) bytes[2 * i] = (unsigned char)i, bytes[2 * i + 1] = 0;
  test_path path = in_folder("places");
  write_file(path.text, bytes, sizeof bytes);
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_uint16(&tokens, path.text, COUNT));
  bool validated[COUNT] = {false};
  for (int fold = 1; fold <= 4; fold++) {
    ac_dataset *train, *validation;
    bool trains[COUNT] = {false}, validates[COUNT] = {false};
    assert_ok(ac_dataset_fold_tokens(&train, &validation, tokens, fold, 4, CONTEXT));
    assert_int_equal(ac_dataset_classes(train), COUNT);
    mark(train, CONTEXT, trains);
    mark(validation, CONTEXT, validates);
    int begin = fold == 1 ? 0 : 51 * (fold - 1), end = fold == 4 ? COUNT : 51 * fold;
    int left_out = 0;
    for (int i = 0; i < COUNT; i++) {
      const bool inside = i >= begin && i < end;
      assert_true(!validates[i] || inside);
      assert_true(!trains[i] || !inside);
      left_out += !trains[i] && !inside; /* at every offset */
      validated[i] |= validates[i];
    }
    assert_true(left_out < 2 * CONTEXT);
    ac_dataset_free(train);
    ac_dataset_free(validation);
  }
  int missing = 0;
  for (int i = 0; i < COUNT; i++) missing += !validated[i];
  assert_true(missing < 4 * CONTEXT);

  const struct {
    int64_t fold, folds, context;
    const char *text;
  } refused[] = {
      {1, 1, 5, "1 folds; at least two"},
      {5, 4, 5, "no fold 5"},
      {1, 204, 5, "203 tokens leave some of 204 folds empty"},
      {1, 4, 0, "a context of 0"},
      {2, 4, 51, "51 tokens are too few for a context of 51"},
      {2, 3, 68, "68 tokens are too few"},
      {1, 2, 101, "101 tokens are too few"}, /* outside of the fold */
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    ac_dataset *train, *validation;
    assert_int_equal(ac_dataset_fold_tokens(&train, &validation, tokens, refused[i].fold,
                                            refused[i].folds, refused[i].context),
                     AC_ERROR_ARGUMENT);
    assert_true(!train && !validation && strstr(ac_last_error(), refused[i].text));
  }
  ac_tokens_free(tokens);
}

static void the_real_text_is_read(void **state) {
  (void)state;
  const char *path = AC_TEST_DATA "/tinyshakespeare.txt";
  if (access(path, R_OK) != 0) {
    print_message("%s is not there: skipped\n", path);
    skip();
  }
  ac_tokens *tokens;
  assert_ok(ac_tokens_from_text(&tokens, path, 0));
  assert_int_equal(ac_tokens_count(tokens), 1115394);
  ac_tokens_free(tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_of_a_file_are_tokens),
      cmocka_unit_test(a_folder_is_read_in_the_order_of_its_paths),
      cmocka_unit_test(parts_of_a_folder_may_be_left_out),
      cmocka_unit_test(a_large_file_is_read_whole),
      cmocka_unit_test(text_that_cannot_be_read_is_named),
      cmocka_unit_test(folders_are_read_whole),
      cmocka_unit_test(long_paths_are_named),
      cmocka_unit_test(unsearchable_folders_are_named),
      cmocka_unit_test(uint16_files_are_little_endian),
      cmocka_unit_test(uint32_files_are_little_endian),
      cmocka_unit_test(spans_cover_every_token_once),
      cmocka_unit_test(jitter_shifts_the_spans),
      cmocka_unit_test(jitter_depends_on_seed_and_epoch_alone),
      cmocka_unit_test(ranges_that_hold_no_span_are_refused),
      cmocka_unit_test(folds_of_text_do_not_leak),
      cmocka_unit_test(the_real_text_is_read),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
