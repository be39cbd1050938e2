// A real OpenID Connect provider for tests/webui/browser/test_single_sign_on.py: node provider.mjs PORT REDIRECT_URI.
// Any name and password log in; ann has the group ops, all others have staff.

import Provider from "oidc-provider";
const redirect = process.argv[3];
const provider = new Provider(`http://127.0.0.1:${process.argv[2]}`, {
  clients: [{ client_id: "weir", client_secret: "client secret of weir", redirect_uris: [redirect], post_logout_redirect_uris: [redirect.replace("oidc/callback", "")], response_types: ["code"], grant_types: ["authorization_code"] }],
  claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email"], groups: ["groups"] },
  scopes: ["openid", "profile", "email", "groups"],
  pkce: { required: () => true },
  features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: id, email: `${id}@example.org`, groups: id === "ann" ? ["ops"] : ["staff"] }) }),
});
provider.listen(Number(process.argv[2]), "127.0.0.1", () => console.log("ready"));
