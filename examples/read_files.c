/* Reading files: texts of a folder, tokens of 16 bits, bytes of any kind, and pictures of CIFAR.
 * The program writes small files of each kind, reads them, and says what is in them; and it shows
 * the sentence for a file of the wrong kind. */
#include <accrue/accrue.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folder = "read_files.d";

static bool write_file(const char *name, const void *data, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  const bool good = fwrite(data, 1, size, file) == size;
  return fclose(file) == 0 && good;
}

/* Two texts, tokens, a picture in PNG's format, and ten records of CIFAR-10 and of CIFAR-100. */
static bool write_files(void) {
  static const unsigned char tokens[] = {1, 0, 2, 0, 3, 0, 0, 1, 5, 0, 6, 0, 7, 0, 8, 0};
  static const unsigned char png[] = "\x89PNG\r\n\x1a\n not really";
  static unsigned char ten[10 * 3073], hundred[10 * 3074];
  for (int i = 0; i < 10; i++) {
    ten[i * 3073] = (unsigned char)i;                /* its class */
    hundred[i * 3074 + 1] = (unsigned char)i;        /* its coarse class is 0 */
    ten[i * 3073 + 1] = hundred[i * 3074 + 2] = 255; /* the first pixel is red */
  }
  return (mkdir(folder, 0700) == 0 || access(folder, W_OK) == 0) &&
         write_file("one.txt", "to be or not to be\n", 19) &&
         write_file("two.txt", "that is the question\n", 21) &&
         write_file("notes.md", "not part of the text\n", 21) &&
         write_file("tokens.bin", tokens, sizeof tokens) && write_file("photo.png", png, 20) &&
         write_file("data_batch_1.bin", ten, sizeof ten) &&
         write_file("train.bin", hundred, sizeof hundred);
}

static void remove_files(void) {
  static const char *const names[] = {"one.txt",   "two.txt",          "notes.md", "tokens.bin",
                                      "photo.png", "data_batch_1.bin", "train.bin"};
  char path[64];
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    remove(path);
  }
  rmdir(folder);
}

/* Of a folder: only files with names that end in ".txt". */
static bool takes(void *user, const char *path, bool is_folder) {
  const char *end = strrchr(path, '.');
  (void)user;
  return is_folder || (end && strcmp(end, ".txt") == 0);
}

/* The first fold of three validates, and no span reaches from one range into another. */
static ac_status texts(void) {
  ac_tokens *text = NULL, *bytes = NULL, *tokens = NULL;
  ac_dataset *train = NULL, *validation = NULL;
  ac_status status = ac_tokens_from_text_where(&text, folder, 0, takes, NULL);
  if (status == AC_OK) status = ac_dataset_fold_tokens(&train, &validation, text, 1, 3, 4);
  if (status == AC_OK)
    printf("texts: %lld bytes; spans of 4: %lld train, %lld validate\n",
           (long long)ac_tokens_count(text), (long long)ac_dataset_count(train),
           (long long)ac_dataset_count(validation));
  if (status == AC_OK) status = ac_tokens_from_bytes(&bytes, folder, 100, NULL, NULL);
  if (status == AC_OK)
    printf("anything: the first %lld bytes\n", (long long)ac_tokens_count(bytes));
  if (status == AC_OK) status = ac_tokens_from_uint16(&tokens, "read_files.d/tokens.bin", 1000);
  if (status == AC_OK) printf("tokens: %lld\n", (long long)ac_tokens_count(tokens));
  if (status == AC_OK && (ac_tokens_count(text) != 40 || ac_tokens_count(tokens) != 8))
    status = AC_ERROR_INTERNAL;
  ac_dataset_free(validation);
  ac_dataset_free(train);
  ac_tokens_free(tokens);
  ac_tokens_free(bytes);
  ac_tokens_free(text);
  return status;
}

static ac_status describe(const char *name, ac_status status, ac_dataset *data, int64_t count) {
  static float pixels[3072];
  int32_t label = -1;
  if (status == AC_OK && ac_dataset_count(data) != count) status = AC_ERROR_INTERNAL;
  if (status == AC_OK)
    status = ac_dataset_read(data, &(ac_sample_key){.index = 0}, (void *[]){pixels, &label});
  if (status == AC_OK && pixels[0] != 1) status = AC_ERROR_INTERNAL;
  if (status == AC_OK) {
    printf("%s: %lld samples of %lld classes, with", name, (long long)count,
           (long long)ac_dataset_classes(data));
    for (int i = 0; i < ac_dataset_field_count(data); i++)
      printf(" %lld %s", (long long)ac_dataset_field(data, i)->elements,
             ac_dataset_field(data, i)->name);
    printf("\n");
  }
  ac_dataset_free(data);
  return status;
}

/* A file, a range of a file, and a folder: its last tenth validates. */
static ac_status pictures(void) {
  const char *ten = "read_files.d/data_batch_1.bin", *hundred = "read_files.d/train.bin";
  ac_dataset *data = NULL, *validation = NULL;
  ac_status status = ac_dataset_from_cifar10(&data, ten, 2, 5);
  status = describe("three of CIFAR-10", status, data, 3);
  if (status == AC_OK) status = ac_dataset_from_cifar100(&data, hundred, true, 0, -1);
  if (status == AC_OK) status = describe("CIFAR-100, coarse", status, data, 10);
  if (status == AC_OK) status = ac_dataset_from_cifar(&data, hundred, 0, -1); /* which one is it? */
  if (status == AC_OK) status = describe("some CIFAR", status, data, 10);
  if (status == AC_OK) status = ac_dataset_cifar10_folder(&data, &validation, folder);
  if (status == AC_OK) status = describe("folder, validation", status, validation, 1);
  if (status == AC_OK) status = describe("folder, training", status, data, 9);
  if (status == AC_OK) status = ac_dataset_cifar100_folder(&data, NULL, folder, false);
  if (status == AC_OK) status = describe("folder of CIFAR-100", status, data, 10);
  return status;
}

int main(void) {
  unsigned char begin[20] = {0};
  ac_tokens *tokens = NULL;
  if (!write_files()) {
    perror(folder);
    return 1;
  }
  ac_status status = texts();
  if (status == AC_OK) status = pictures();
  if (status != AC_OK) fprintf(stderr, "read_files: %s\n", ac_last_error());
  const bool refused = ac_tokens_from_text(&tokens, "read_files.d/photo.png", 0) == AC_ERROR_FORMAT;
  if (refused) printf("%s\n", ac_last_error());
  FILE *file = fopen("read_files.d/photo.png", "rb");
  const size_t count = file ? fread(begin, 1, sizeof begin, file) : 0;
  const char *kind = ac_format_name(begin, count, count);
  printf("the library takes it for %s\n", kind ? kind : "something that it does not know");
  if (file) fclose(file);
  ac_tokens_free(tokens);
  remove_files();
  return status == AC_OK && refused && kind ? 0 : 1;
}
