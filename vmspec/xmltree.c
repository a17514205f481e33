#include <libxml/parser.h>
#include <libxml/parserInternals.h> /* xmlStringTextNoenc */
#include <libxml/tree.h>
#include <libxml/xmlreader.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>

#include "vmspec/xmltree.h"

static void start_parser(void)
{
	xmlInitParser();
}

static void init_once(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, start_parser);
}

rk_xml *rk_xml_new(const char *root)
{
	init_once();
	xmlDoc *doc = xmlNewDoc(BAD_CAST "1.0");
	xmlNode *node = doc ? xmlNewDocNode(doc, NULL, BAD_CAST root, NULL) : NULL;
	if (!node)
		abort();
	xmlDocSetRootElement(doc, node);
	return doc;
}

int rk_xml_parse(const char *what, const char *text, rk_xml **ret, struct rk_err *err)
{
	size_t len = strlen(text);

	init_once();
	*ret = NULL;
	if (len > RK_XML_MAX)
		return rk_err_set(err, RK_INVALID, "%s has %zu bytes, more than %d", what, len, (int)RK_XML_MAX);
	xmlDoc *doc = xmlReadMemory(text, (int)len, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	/* libvirt never writes a document type; entities would only be a way to make a small text large. */
	if (!doc || doc->intSubset || !xmlDocGetRootElement(doc)) {
		xmlFreeDoc(doc);
		return rk_err_set(err, RK_INVALID, "%s is not well-formed XML", what);
	}
	*ret = doc;
	return 0;
}

static rk_xml *copy_element(xmlNode *node)
{
	xmlDoc *doc = node ? xmlNewDoc(BAD_CAST "1.0") : NULL;

	if (doc)
		xmlDocSetRootElement(doc, xmlDocCopyNode(node, doc, 1));
	return doc;
}

int rk_xml_part(const char *text, const char *element, rk_xml **ret)
{
	size_t len = strlen(text);

	init_once();
	*ret = NULL;
	xmlTextReader *reader = len > RK_XML_MAX ? NULL : xmlReaderForMemory(text, (int)len, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
	while (reader && xmlTextReaderRead(reader) == 1 && xmlTextReaderNodeType(reader) != XML_READER_TYPE_DOCUMENT_TYPE)
		if (xmlTextReaderDepth(reader) == 1 && xmlTextReaderNodeType(reader) == XML_READER_TYPE_ELEMENT &&
		    xmlStrEqual(xmlTextReaderConstLocalName(reader), BAD_CAST element)) {
			*ret = copy_element(xmlTextReaderExpand(reader));
			break;
		}
	xmlFreeTextReader(reader);
	return *ret ? 0 : RK_NOT_FOUND;
}

void rk_cleanup_xml(rk_xml **xml)
{
	xmlFreeDoc(*xml);
}

rk_xnode *rk_xroot(rk_xml *xml)
{
	return xmlDocGetRootElement(xml);
}

/* XML 1.0 has no way to carry most control bytes: remembered here, reported when the document is written. */
static const xmlChar *checked(xmlDoc *doc, const char *text)
{
	size_t n = strlen(text);
	bool good = rk_utf8_valid(text, n) == n;

	for (size_t i = 0; good && i < n; i++)
		good = (unsigned char)text[i] >= ' ' || text[i] == '\t' || text[i] == '\n';
	if (good)
		return BAD_CAST text;
	doc->_private = doc;
	return BAD_CAST "";
}

rk_xnode *rk_x(rk_xnode *parent, const char *name, ...)
{
	const char *colon = strchr(name, ':'), *key;
	xmlNode *node;
	va_list ap;

	if (colon) {
		char *prefix RK_CLEANUP_FREE = rk_xstrndup(name, (size_t)(colon - name));
		node = xmlNewChild(parent, xmlSearchNs(parent->doc, parent, BAD_CAST prefix), BAD_CAST(colon + 1), NULL);
	} else {
		node = xmlNewDocNode(parent->doc, NULL, BAD_CAST name, NULL);
		if (node)
			xmlAddChild(parent, node);
	}
	if (!node)
		abort();
	va_start(ap, name);
	while ((key = va_arg(ap, const char *))) {
		const char *value = va_arg(ap, const char *);
		if (value)
			xmlNewProp(node, BAD_CAST key, checked(parent->doc, value));
	}
	va_end(ap);
	return node;
}

rk_xnode *rk_xt(rk_xnode *parent, const char *name, const char *text)
{
	rk_xnode *node = rk_x(parent, name, NULL);

	xmlNodeAddContent(node, checked(node->doc, text));
	return node;
}

void rk_xattr(rk_xnode *node, const char *attribute, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *value RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	xmlNewProp(node, BAD_CAST attribute, checked(node->doc, value));
}

void rk_xtext(rk_xnode *node, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *text RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	xmlNodeAddContent(node, checked(node->doc, text));
}

void rk_xns(rk_xnode *node, const char *prefix, const char *uri)
{
	xmlNs *ns = xmlNewNs(node, BAD_CAST uri, BAD_CAST prefix);

	if (!ns)
		abort();
	/* An element named before its own namespace was declared ("racksh:vm" under a plain parent). */
	if (!node->ns && node->parent && node->parent->type == XML_ELEMENT_NODE)
		xmlSetNs(node, ns);
}

int rk_xml_sound(const rk_xml *xml, struct rk_err *err)
{
	return xml->_private ? rk_err_set(err, RK_INVALID, "a name, path or kernel command line holds bytes that XML cannot carry") : 0;
}

int rk_xml_write(rk_xml *xml, struct rk_str *out, struct rk_err *err)
{
	int rc = rk_xml_sound(xml, err);

	if (rc)
		return rc;
	xmlBuffer *buffer = xmlBufferCreateSize(128 * 1024);
	if (!buffer || xmlNodeDump(buffer, xml, xmlDocGetRootElement(xml), 0, 1) < 0)
		abort();
	rk_str_addn(out, (const char *)xmlBufferContent(buffer), (size_t)xmlBufferLength(buffer));
	rk_str_addc(out, '\n');
	xmlBufferFree(buffer);
	return 0;
}

void rk_xinner(rk_xnode *node, int level, struct rk_str *out)
{
	xmlBuffer *buffer = xmlBufferCreate();

	if (!buffer || xmlNodeDump(buffer, node->doc, node, level, 1) < 0)
		abort();
	const char *text = (const char *)xmlBufferContent(buffer), *from = strchr(text, '>') + 1, *to = strrchr(text, '<');
	if (node->children)
		rk_str_addn(out, from, (size_t)(to - from));
	xmlBufferFree(buffer);
}

void rk_xraw(rk_xnode *node, const char *text)
{
	xmlNode *content = xmlNewDocText(node->doc, BAD_CAST text);

	if (!content)
		abort();
	/* libxml2's own mark of a text that is written without escaping. */
	content->name = xmlStringTextNoenc;
	xmlAddChild(node, content);
}

/* The next node in document order within root; skip: not below node. */
static xmlNode *following(const xmlNode *root, xmlNode *node, bool skip)
{
	if (!skip && node->children)
		return node->children;
	while (node != root && !node->next)
		node = node->parent;
	return node == root ? NULL : node->next;
}

void rk_xdrop(rk_xnode *root, const char *name)
{
	bool attribute = *name == '@';

	for (xmlNode *node = root->children ? root->children : NULL, *next; node; node = next) {
		bool out = !attribute && node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0;
		next = following(root, node, out);
		if (attribute && node->type == XML_ELEMENT_NODE)
			xmlUnsetProp(node, BAD_CAST(name + 1));
		if (!out)
			continue;
		xmlUnlinkNode(node);
		xmlFreeNode(node);
	}
}

static rk_xnode *named(xmlNode *node, const char *name, size_t n)
{
	while (node && !(node->type == XML_ELEMENT_NODE && strlen((const char *)node->name) == n && memcmp(node->name, name, n) == 0))
		node = node->next;
	return node;
}

rk_xnode *rk_xchild(rk_xnode *node, const char *name)
{
	return node ? named(node->children, name, strlen(name)) : NULL;
}

rk_xnode *rk_xnext(rk_xnode *node, const char *name)
{
	return node ? named(node->next, name, strlen(name)) : NULL;
}

const char *rk_xns_uri(rk_xnode *node)
{
	return node && node->ns ? (const char *)node->ns->href : NULL;
}

const char *rk_xget(rk_xnode *node, const char *path, struct rk_arena *arena)
{
	while (node && *path && *path != '@') {
		size_t n = strcspn(path, "/@");
		node = named(node->children, path, n);
		path += n + (path[n] == '/');
	}
	if (!node)
		return NULL;
	xmlChar *text = *path == '@' ? xmlGetNoNsProp(node, BAD_CAST(path + 1)) : xmlNodeGetContent(node);
	const char *copy = rk_arena_strdup(arena, (const char *)text);
	xmlFree(text);
	return copy;
}
