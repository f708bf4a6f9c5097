#ifndef FACTORD_CLIENT_FACTORCTL_JSON_H_
#define FACTORD_CLIENT_FACTORCTL_JSON_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace factord::client {

// Writes one JSON value, two spaces a level, members in the order of the calls. The caller keeps
// Begin and End in pairs and gives each member of an object its Key. Not thread-safe.
class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }

  JsonWriter& Key(absl::string_view key);
  JsonWriter& String(absl::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Double(double value);  // null where it is not finite: JSON has no such numbers
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  // The text, with a line break at its end.
  std::string Take();

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  JsonWriter& Value(absl::string_view text);
  void BeforeValue();
  void NewLine();

  std::string text_;
  std::size_t depth_ = 0;
  bool is_first_ = true;    // in the array or object that is open
  bool after_key_ = false;  // the next value belongs to the key just written
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_JSON_H_
