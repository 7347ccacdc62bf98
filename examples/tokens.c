/* Reads a tokenizer of a published model and shows the tokens of a text:
 *
 *     tokens TOKENIZER.JSON TEXT
 *
 * Without arguments it writes a small tokenizer itself, and checks what comes out. */
#include <accrue/accrue.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Byte-pair encoding of words, in the form that Hugging Face's `tokenizers` writes. */
static const char small[] =
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
    "true},"
    " \"decoder\": {\"type\": \"ByteLevel\"},"
    " \"added_tokens\": [{\"id\": 9, \"content\": \"<|end|>\", \"special\": true}],"
    " \"model\": {\"type\": \"BPE\","
    "  \"vocab\": {\"l\": 0, \"o\": 1, \"w\": 2, \"e\": 3, \"r\": 4, \"\\u0120\": 5,"
    "             \"lo\": 6, \"low\": 7, \"er\": 8},"
    "  \"merges\": [\"l o\", \"lo w\", \"e r\"]}}";

static ac_status write_small(const char *path) {
  FILE *file = fopen(path, "w");
  if (!file) return AC_ERROR_IO;
  fputs(small, file);
  return fclose(file) == 0 ? AC_OK : AC_ERROR_IO;
}

/* One line a token: its id, its place in the text, and its bytes. */
static void show(const ac_tokenizer *tokenizer, const ac_encoding *tokens) {
  for (size_t i = 0; i < tokens->count; i++) {
    size_t bytes;
    const char *text = ac_tokenizer_token(tokenizer, tokens->ids[i], &bytes);
    printf("%6lu  %3lu..%-3lu  \"%.*s\"%s\n", (unsigned long)tokens->ids[i],
           (unsigned long)tokens->begin[i], (unsigned long)tokens->end[i], (int)bytes, text,
           ac_tokenizer_is_special(tokenizer, tokens->ids[i]) ? " (special)" : "");
  }
}

/* The text of the tokens again; whether it is the same. */
static ac_status back_again(ac_tokenizer *tokenizer, const ac_encoding *tokens, const char *text) {
  char *decoded;
  const ac_status status =
      ac_tokenizer_decode(&decoded, NULL, tokenizer, tokens->ids, tokens->count, false);
  if (status != AC_OK) return status;
  printf("decoded: %s (%s)\n", decoded, strcmp(decoded, text) ? "not the same" : "the same");
  free(decoded);
  return AC_OK;
}

static ac_status encode(ac_tokenizer *tokenizer, const char *text, bool check) {
  ac_encoding tokens;
  ac_status status = ac_tokenizer_encode(tokenizer, text, strlen(text), NULL, &tokens);
  if (status != AC_OK) return status;
  show(tokenizer, &tokens);
  status = back_again(tokenizer, &tokens, text);
  static const uint32_t expected[] = {7, 5, 7, 8, 9};
  if (check && (tokens.count != 5 || memcmp(tokens.ids, expected, sizeof expected)))
    status = AC_ERROR_INTERNAL;
  ac_encoding_free(&tokens);
  return status;
}

int main(int argc, char **argv) {
  const bool own = argc < 3;
  const char *path = own ? "tokens_example.json" : argv[1];
  ac_tokenizer *tokenizer = NULL;
  ac_status status = own ? write_small(path) : AC_OK;
  if (status == AC_OK) status = ac_tokenizer_open(&tokenizer, path);
  if (status == AC_OK) status = encode(tokenizer, own ? "low lower<|end|>" : argv[2], own);
  if (status != AC_OK) fprintf(stderr, "%s: %s\n", ac_status_text(status), ac_last_error());
  ac_tokenizer_free(tokenizer);
  if (own) remove(path);
  return status == AC_OK ? 0 : 1;
}
