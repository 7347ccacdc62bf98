/* Chat data, after a byte that chooses template and settings; and the text of a chat template. */
#include "fuzz.h"

#include <accrue/chat.h>
#include <stdlib.h>
#include <string.h>

static ac_tokenizer *tokenizer;

static void open_tokenizer(void) {
  static const char json[] =
      "{\"added_tokens\":[{\"id\":3,\"content\":\"<|im_end|>\",\"special\":true},{\"id\":4,"
      "\"content\":\"</s>\",\"special\":true}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,"
      "\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
  if (!tokenizer)
    FUZZ_CHECK(ac_tokenizer_open(&tokenizer, fuzz_file(1, json, sizeof json - 1)) == AC_OK);
}

static void read_samples(const ac_chat *chat, const ac_chat_desc *desc, bool validation) {
  ac_dataset *dataset;
  int32_t numbers[6][64];
  void *fields[6];
  for (int i = 0; i < 6; i++) fields[i] = numbers[i];
  if (ac_dataset_from_chat(&dataset, chat, validation) != AC_OK) return;
  for (int64_t i = 0; i < ac_dataset_count(dataset); i++) {
    FUZZ_CHECK(ac_dataset_read(dataset, &(ac_sample_key){.index = i}, fields) == AC_OK);
    for (int64_t t = 0; t < desc->context; t++)
      FUZZ_CHECK(numbers[0][t] >= 0 && numbers[0][t] < 5 && numbers[1][t] >= 0 &&
                 numbers[1][t] < 5);
  }
  ac_dataset_free(dataset);
}

static void check_documents(const ac_chat *chat) {
  ac_chat_info info;
  ac_chat_document document;
  ac_chat_get_info(chat, &info);
  FUZZ_CHECK(info.documents > 0 && info.train.documents > 0 && info.train.samples > 0);
  for (int64_t i = 0; i < info.documents; i++) {
    FUZZ_CHECK(ac_chat_get_document(chat, i, &document) == AC_OK);
    uint32_t *ids = malloc((document.count + 1) * sizeof *ids);
    FUZZ_CHECK(ac_chat_get_tokens(chat, i, 0, document.count, ids, NULL) == AC_OK);
    free(ids);
  }
}

static void run(const uint8_t *data, size_t bytes) {
  const uint8_t how = bytes ? data[0] : 0;
  const ac_chat_template *found;
  ac_chat *chat;
  open_tokenizer();
  char *text = malloc(bytes + 1);
  memcpy(text, data, bytes);
  text[bytes] = 0;
  if (ac_chat_template_recognise(&found, text) != AC_OK) fuzz_check_sentence();
  free(text);
  const ac_chat_desc desc = {.tokenizer = tokenizer,
                             .chat_template = ac_chat_template_at(how % 24),
                             .context = 1 + how % 64,
                             .learn = how & 1 ? AC_LEARN_ALL : AC_LEARN_ASSISTANT,
                             .no_packing = how & 2,
                             .long_documents = how & 4 ? AC_LONG_DROP : AC_LONG_CUT,
                             .validation = how & 8 ? 0.5 : 0,
                             .end = how & 16 ? "</s>" : NULL,
                             .preferences = how >= 224};
  const size_t from = bytes ? 1 : 0;
  if (ac_chat_open(&chat, fuzz_file(0, data + from, bytes - from), &desc) != AC_OK) {
    FUZZ_CHECK(!chat);
    fuzz_check_sentence();
    return;
  }
  check_documents(chat);
  read_samples(chat, &desc, false);
  read_samples(chat, &desc, true);
  ac_chat_free(chat);
}

#define MESSAGES                                                                                 \
  "[{\"role\":\"system\",\"content\":\"b\"},{\"role\":\"user\",\"content\":[{\"type\":\"text\"," \
  "\"text\":"                                                                                    \
  "\" a\\n\"}]},{\"role\":\"assistant\",\"content\":\"ab<|im_end|> \",\"weight\":1}]"

static void seeds(fuzz_take take) {
  static const char *const lines[] = {
      "{\"messages\":" MESSAGES "}\n{\"text\":\"abab\"}\n",
      "[{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":"
      "\"<think>b</think>a\"}],\"system\":\"a\"}, {\"prompt\":\"a\",\"completion\":\"bb\"}]",
      "{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"ab\",\"history\":[[\"a\",\"b\"]]}\n"
      "{\"text\":\"ab</s>a\",\"spans\":[[1,2],[3,6]]}\n",
      "{\"prompt\":" MESSAGES
      ",\"chosen\":[{\"role\":\"assistant\",\"content\":\"a\"}],\"rejected\":["
      "{\"role\":\"assistant\",\"content\":\"b\"}]}",
      "{\"prompt\":\"a\",\"chosen\":\"ab\",\"rejected\":\"b\"}",
      "{%- for m in messages -%}{{ m['role'] + \"a\\n\" }}{# a -#} {% if m.b %}\n{% endif %}x"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    for (int how = i == 3 || i == 4 ? 224 : 0; how < 256; how += 11) {
      char input[1024] = {(char)how};
      strcpy(input + 1, lines[i]);
      take(input, 1 + strlen(lines[i]));
    }
}

const fuzz_format fuzz_chat = {"chat", run, seeds};
