#include "report/page.h"

#include "common/message.h"
#include "common/text.h"
#include "report/examples.h"
#include "report/html.h"
#include "report/layers.h"
#include "report/noise_layers.h"
#include "report/story.h"
#include "report/tables.h"

#include <accrue/accrue.h>
#include <string.h>

static const char style[] =
    "body{font:16px/1.5 sans-serif;color:#1b1b1b;background:#fff;margin:0 auto;max-width:1240px;"
    "padding:1rem}"
    "h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.25rem;margin:2rem 0 .5rem}"
    "h3{font-size:1rem;margin:0 0 .25rem}"
    "h1,h2,h3,p,li,figcaption{overflow-wrap:anywhere}"
    "small{font-weight:normal;color:#555}"
    "p{margin:.25rem 0}.run{margin:0 0 1rem}.note{border-left:4px solid #b35900;padding-left:.5rem}"
    ".pictures{display:grid;gap:1.5rem;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem),1fr))}"
    "figure{margin:0;max-width:40rem}svg.curves{display:block;width:100%;height:auto}"
    "svg.key{width:44px;height:10px;margin-right:.4em;vertical-align:middle;fill:none}"
    ".entry{display:inline-block;margin-right:1em}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse}"
    "th bdi,td bdi{display:inline-block;width:max-content;max-width:10rem;text-align:left}td "
    "bdi{max-width:20rem}th,td{padding:.25rem .6rem;border-bottom:1px solid #ddd;text-align:left;"
    "vertical-align:top;max-width:22rem;overflow-wrap:break-word}"
    "td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "th.n{white-space:normal}"
    ".bar{display:block;height:.4rem;margin-top:.15rem;background:#4c72b0;min-width:1px}"
    "table.memory th[scope=col]{text-align:right}"
    "table.confusion td,table.confusion th{padding:.1rem "
    ".35rem;text-align:right;border:0}"
    "table.confusion td.right{outline:1px solid #1b1b1b}"
    ".examples{display:flex;flex-wrap:wrap;gap:1rem}.examples figure{width:10rem}"
    ".examples img,table.changed img{width:7rem;height:7rem;object-fit:contain;"
    "image-rendering:pixelated;background:#f4f4f4;display:block}"
    ".examples img{border:3px solid #4c72b0}.examples .wrong img{border-color:#b35900}"
    "figcaption{font-size:.85rem}table.changed td{padding:1px;border:0}"
    "table.changed td:first-child{padding-right:.6rem}";

static void put_head(FILE *page, const char *title) {
  fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; "
        "style-src &#39;unsafe-inline&#39;; img-src data:\"/>\n<title>",
        page);
  html_text(page, title);
  fprintf(page, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>", style);
  html_name(page, title);
  fputs("</h1>\n", page);
}

static int put_curves(FILE *page, curves *c) {
  bool any = false;
  for (size_t run = 0; run < c->count; run++)
    any = any || c->runs[run].steps.count || c->runs[run].evaluations.count;
  fputs("<h2>Curves</h2>\n", page);
  if (!any) {
    fputs("<p>There are none, as no run has metrics of a step.</p>\n", page);
    return STATUS_CONTINUE;
  }
  fputs("<div class=\"pictures\">\n", page);
  int status = curves_write(c, page);
  fputs("</div>\n", page);
  return status;
}

int page_write(FILE *page, const char *title, curves *c) {
  put_head(page, title);
  for (size_t run = 0; run < c->count; run++) story_write(page, c->runs, c->count, run);
  tables_results(page, c->runs, c->count);
  int status = put_curves(page, c);
  if (status != STATUS_CONTINUE) return status;
  for (size_t run = 0; run < c->count; run++) noise_layers_table(page, &c->runs[run]);
  tables_memory(page, c->runs, c->count);
  tables_settings(page, c->runs, c->count);
  for (size_t run = 0; run < c->count; run++) layers_table(page, &c->runs[run]);
  for (size_t run = 0; run < c->count; run++) {
    tables_confusion(page, &c->runs[run]);
    tables_classes(page, &c->runs[run]);
    examples_write(page, &c->runs[run]);
  }
  fprintf(page, "<p><small>Written by accrue report, version %s.</small></p>\n</body>\n</html>\n",
          ac_version());
  return STATUS_CONTINUE;
}
