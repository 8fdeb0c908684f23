//! Pages of other sites: those of configured origins may use the API with tokens, others may not.

use crate::support::prelude::*;

const OURS: &str = "https://shop.example";

/// What libraries add to each request of a page, as the documents of the libraries say.
const LIBRARIES: &[(&str, &str)] = &[
    // https://www.w3.org/TR/trace-context/ and https://www.w3.org/TR/baggage/
    ("W3C", "traceparent tracestate baggage"),
    // https://docs.sentry.io/platforms/javascript/tracing/distributed-tracing/
    ("Sentry", "sentry-trace baggage traceparent"),
    // https://docs.datadoghq.com/real_user_monitoring/correlate_with_other_telemetry/apm/
    (
        "Datadog",
        "x-datadog-trace-id x-datadog-parent-id x-datadog-origin x-datadog-sampling-priority",
    ),
    ("Datadog", "traceparent tracestate b3 x-b3-traceid x-b3-spanid x-b3-sampled"),
    // https://github.com/openzipkin/b3-propagation
    ("Zipkin", "b3 x-b3-traceid x-b3-spanid x-b3-parentspanid x-b3-sampled x-b3-flags"),
    // https://docs.newrelic.com/docs/browser/new-relic-browser/browser-pro-features/browser-data-distributed-tracing/
    ("New Relic", "newrelic traceparent tracestate"),
    // https://learn.microsoft.com/azure/azure-monitor/app/javascript-sdk-configuration
    ("Application Insights", "request-id request-context traceparent tracestate"),
    // https://www.elastic.co/guide/en/apm/agent/rum-js/current/distributed-tracing-guide.html
    ("Elastic", "traceparent tracestate elastic-apm-traceparent"),
    // https://www.jaegertracing.io/docs/1.76/client-libraries/
    ("Jaeger", "uber-trace-id"),
    // https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader
    ("AWS X-Ray", "x-amzn-trace-id"),
    // https://github.com/apache/skywalking-client-js
    ("SkyWalking", "sw8"),
    // https://posthog.com/docs/libraries/js/config
    ("PostHog", "x-posthog-session-id x-posthog-distinct-id x-posthog-window-id"),
    // https://api.jquery.com/jQuery.ajax/ (`headers`)
    ("jQuery", "x-requested-with"),
    // https://github.com/Azure/fetch-event-source
    ("fetch-event-source", "last-event-id cache-control"),
    // https://axios-http.com/docs/req_config (`xsrfHeaderName`)
    ("axios", "x-xsrf-token x-requested-with"),
];

async fn preflight(client: &Client, origin: &str, path: &str) -> Answer {
    let request = client.request(Method::OPTIONS, path);
    let request = request
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,idempotency-key");
    Client::send(request).await
}

fn allowed(answer: &Answer) -> Option<&str> {
    answer.headers.get("access-control-allow-origin").map(|it| it.to_str().expect("text"))
}

#[tokio::test]
async fn a_page_of_a_named_origin_buys_with_a_token() {
    let origins = format!("{OURS}, http://127.0.0.1:3000");
    let (_shop, instance) = Shop::open_with(|config| config.http.cors_origins = origins).await;
    let item = instance.make_item(json!({})).await;
    let path = format!("/api/seckill/default/{item}");
    let asked = preflight(&instance.stranger(), OURS, &path).await;
    assert!((200..300).contains(&asked.status), "{}", asked.status);
    assert_eq!(allowed(&asked), Some(OURS));
    let headers = asked.headers["access-control-allow-headers"].to_str().expect("text");
    assert!(headers.contains("authorization") && headers.contains("idempotency-key"), "{headers}");
    let request = instance.buyer(1).request(Method::POST, &path);
    let request = request.header("origin", OURS).header("sec-fetch-site", "cross-site");
    let bought = Client::send(request).await;
    assert_eq!((bought.status, allowed(&bought)), (201, Some(OURS)), "{}", bought.text);
    let shown = bought.headers["access-control-expose-headers"].to_str().expect("text");
    assert!(shown.contains("idempotency-replayed"), "{shown}");
    // Cookies are never asked for, and caches tell the origins apart.
    for answer in [&asked, &bought] {
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
        let vary = answer.headers.get_all("vary").iter();
        let vary: Vec<&str> = vary.map(|it| it.to_str().expect("text")).collect();
        assert!(vary.join(",").to_lowercase().contains("origin"), "{vary:?}");
    }
    // Nothing that a library adds by itself keeps a page from us (sentry-javascript#6077).
    let all: Vec<&str> = headers.split(',').map(str::trim).collect();
    for (library, added) in LIBRARIES {
        for header in added.split(' ') {
            assert!(all.contains(&header), "{library}: {header} is missing in {headers}");
        }
    }
    for of_proxies in ["x-forwarded-for", "forwarded", "cookie", "webhook-signature", "*"] {
        assert!(!all.contains(&of_proxies), "{of_proxies}");
    }
    // Refusals can be read, too.
    let request = instance.stranger().request(Method::GET, "/api/orders").header("origin", OURS);
    let refused = Client::send(request).await;
    assert_eq!((refused.status, allowed(&refused)), (401, Some(OURS)));
}

#[tokio::test]
async fn other_origins_learn_nothing_and_no_page_uses_a_cookie() {
    let (_shop, instance) =
        Shop::open_with(|config| config.http.cors_origins = OURS.to_owned()).await;
    let origins = "https://evil.example https://shop.example.evil.example https://evil-shop.example \
         http://shop.example https://shop.example:8443 https://SHOP.example null";
    for origin in origins.split(' ') {
        let asked = preflight(&instance.stranger(), origin, "/api/items").await;
        assert_eq!(allowed(&asked), None, "{origin}");
        let request = instance.stranger().request(Method::GET, "/api/items");
        let answer = Client::send(request.header("origin", origin)).await;
        assert_eq!(allowed(&answer), None, "{origin}");
    }
    // Pages are not part of the API.
    let request = instance.stranger().request(Method::GET, "/").header("origin", OURS);
    assert_eq!(allowed(&Client::send(request).await), None);
    // A cookie is not taken from a page of a named origin.
    let item = instance.make_item(json!({})).await;
    let buyer = instance.buyer(1);
    let cookie = format!("seckill={}", buyer.token().expect("a token"));
    for (origin, site) in [(OURS, "cross-site"), (OURS, "same-site")] {
        let request =
            instance.stranger().request(Method::POST, &format!("/api/seckill/default/{item}"));
        let request = request.header("cookie", &cookie).header("origin", origin);
        let answer = Client::send(request.header("sec-fetch-site", site)).await;
        assert_eq!(answer.brief(), (403, "cross_site_request"), "{origin} {site}");
    }
    // Signing in needs no cookie, so a named origin may do it, and no other.
    let person = json!({ "username": "ada", "password": "correct horse battery" });
    for (origin, status) in [(OURS, 201), ("https://evil.example", 403)] {
        let request = instance.stranger().request(Method::POST, "/api/users").json(&person);
        let request = request.header("origin", origin).header("sec-fetch-site", "cross-site");
        assert_eq!(Client::send(request).await.status, status, "{origin}");
    }
}

#[tokio::test]
async fn without_the_setting_there_is_no_cors() {
    let (_shop, instance) = Shop::open().await;
    let asked = preflight(&instance.stranger(), OURS, "/api/items").await;
    assert_eq!((asked.status, allowed(&asked)), (405, None));
}
