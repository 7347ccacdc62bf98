/* Published templates by a hash of their texts, and the template of the list that renders the same.
 * tests/vectors/chat_templates.py writes the hashes of a folder of templates. */
#include <accrue/chat.h>

#include "chat/jinja.h"
#include "core/error.h"

#include <string.h>

typedef struct published {
  uint64_t hash;
  const char *name; /* in the list */
} published;

static const published known[] = {
    {0xee1172f5ce6598ea, "chatml"},
    {0xb96a058410b4e462, "chatml"},
    {0xa704fb6358072ce1, "chatml"},
    {0x6acdcb169ad5450f, "chatml"},
    {0x1adf09bf3c17d5d7, "chatml"},
    {0x942668434316d260, "chatml-qwen1.5"},
    {0xfe25c5dc2933e594, "chatml-qwen2"},
    {0xb9814a61a3cfb0ad, "chatml-qwen2.5"},
    {0x497f73b5bfd4bb41, "chatml-smollm2"},
    {0xddacb042285f55b4, "gemma"},
    {0x036717f24b51064d, "gemma"},
    {0xa90e7d0784324be1, "gemma3"},
    {0x429c13b9340401bd, "llama2"},
    {0xa6037c30a5f7c464, "llama2"},
    {0x289adef400c77eac, "llama3"},
    {0x126cb50af07e3f4b, "llama3"},
    {0x65d630a073bebca4, "llama3"},
    {0x7481832f9e0e6979, "llama3.1"},
    {0x742b734084242c61, "llama3.1"},
    {0x1671fbf0ab33bcb1, "mistral-v0.1"},
    {0x29b5f4f9ac3281ee, "mistral-v0.2"},
    {0x61ad89974adb702d, "mistral-v1"},
    {0x2561ae5a19f17291, "mistral-v1"},
    {0x047fecbe0a8e9de3, "mistral-v3"},
    {0xf49a509f037092fb, "mistral-v3"},
    {0x282b9bf5d34d68f2, "mistral-v3-tekken"},
    {0xb1625488d8fe2100, "mistral-v3-tekken"},
    {0x89ba878dc83f9add, "phi3"},
    {0xe47fee8669f386b2, "phi3-medium-first"},
    {0x47677cb6f984b7df, "phi3-mini-first"},
    {0x28695571e64e7764, "phi3-small"},
    {0x2df54a62eca54f14, "phi3.5"},
    {0x16f32610ba7e43d9, "qwen3"},
    {0x97eaec4dc8626685, "smollm3"},
    {0x5b8b4e2d199f6237, "smollm3-undated"},
    {0x66071f717b3958b7, "zephyr"},
    {0x5ffa8f83f86c3134, "zephyr"},
};

ac_status ac_chat_template_recognise(const ac_chat_template **chat_template, const char *jinja) {
  uint64_t hash;
  AC_CREATES(chat_template);
  AC_REQUIRE(jinja);
  AC_TRY(ac_chat_jinja_hash(&hash, jinja));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].hash == hash) return ac_chat_template_find(chat_template, known[i].name);
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "the model's chat template (%zu bytes, hash %016llx) is none that this library "
                 "renders",
                 strlen(jinja), (unsigned long long)hash);
}
