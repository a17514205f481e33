#include "provision/drivers/volume_xml.h"

#include <string.h>

static void add_xml_text(struct rk_str *out, const char *text)
{
	for (; *text; text++) {
		const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : *text == '&' ? "&amp;" : NULL;
		if (entity)
			rk_str_add(out, entity);
		else
			rk_str_addc(out, *text);
	}
}

void rk_volume_xml(struct rk_str *out, const char *name, uint64_t bytes, const char *format, const char *backing, const char *backing_format)
{
	rk_str_add(out, "<volume><name>");
	add_xml_text(out, name);
	rk_str_addf(out, "</name><capacity unit='bytes'>%llu</capacity><target><format type='%s'/></target>", (unsigned long long)bytes, format);
	if (backing) {
		rk_str_add(out, "<backingStore><path>");
		add_xml_text(out, backing);
		rk_str_addf(out, "</path><format type='%s'/></backingStore>", backing_format);
	}
	rk_str_add(out, "</volume>");
}

const char *rk_volume_format(const char *xml)
{
	static const char *const known[] = { "qcow2", "raw" };
	const char *target = strstr(xml, "<target>"), *format = target ? strstr(target, "<format type='") : NULL;

	for (size_t i = 0; format && i < RK_ARRAY_SIZE(known); i++)
		if (rk_starts_with(format + strlen("<format type='"), known[i]))
			return known[i];
	return NULL;
}
