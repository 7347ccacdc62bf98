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
    {0xb96a058410b4e462, "chatml"},       {0xa704fb6358072ce1, "chatml"},
    {0xee1172f5ce6598ea, "chatml"},       {0x942668434316d260, "chatml-qwen1.5"},
    {0xfe25c5dc2933e594, "chatml-qwen2"}, {0x497f73b5bfd4bb41, "chatml-smollm2"},
};

ac_status ac_chat_template_recognise(const ac_chat_template **chat_template, const char *jinja) {
  uint64_t hash;
  AC_CREATES(chat_template);
  AC_REQUIRE(jinja);
  AC_TRY(ac_chat_jinja_hash(&hash, jinja));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].hash == hash) return ac_chat_template_find(chat_template, known[i].name);
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "the model's chat template (%zu bytes, hash %016llx) is not one that this library "
                 "renders; name one that renders the same, or give data with `text` and `spans`",
                 strlen(jinja), (unsigned long long)hash);
}
