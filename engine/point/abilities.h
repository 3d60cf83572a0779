// The parts of a point that a framework cannot run (framework/framework.h: Abilities).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace mbench {

struct Abilities;
struct Point;

// bad_input at `where` for a field or a value that no point can have.
void check(const Abilities& can, const std::string& where);
// Whether the framework has that value of a field.
bool has(const Abilities& can, const std::string& field, const nlohmann::json& value);
// Whether the framework's file lists that value. One that says nothing of the field lists none, though it has them all.
bool lists(const Abilities& can, const std::string& field, std::string_view value);
// What of the point the framework lacks: "zero 3, offload optimizer"; empty: nothing.
std::string lacking(const Abilities& can, const Point& point);

}  // namespace mbench
