#!/usr/bin/env bash
# Checks the files that only GitHub reads (workflows, issue forms, dependabot, the citation) against their schemas, with check-jsonschema of .ci/requirements.txt.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
check() {
  check-jsonschema --builtin-schema "vendor.$1" "${@:2}"
}
forms=()
for form in .github/ISSUE_TEMPLATE/*.yml; do
  [[ $form == */config.yml ]] || forms+=("$form")
done
check github-workflows .github/workflows/*.yml
check github-issue-forms "${forms[@]}"
check github-issue-config .github/ISSUE_TEMPLATE/config.yml
check dependabot .github/dependabot.yml
check citation-file-format CITATION.cff
